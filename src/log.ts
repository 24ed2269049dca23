/** The daemon's own log, on standard error: a JSON object a line, or, for a person at a terminal, a line that is read at a glance. */
import { pino } from 'pino';
import type { Log } from './powers.ts';

export const LOG_LEVELS: readonly string[] = [...Object.keys(pino.levels.values), 'silent'];

export const createLog = (level: string, isTerminal = process.stderr.isTTY): Log & Pick<pino.Logger, 'fatal'> =>
  pino(
    {
      level,
      serializers: { error: pino.stdSerializers.err },
      hooks: { streamWrite: (line) => undriving(isTerminal ? toPlain(line) : line) },
    },
    pino.destination({ fd: 2, sync: true }),
  );

/** JSON leaves DEL and C1 as they are, and a terminal that shows the log would heed them. */
const undriving = (line: string): string =>
  line.replace(/[\x7f-\x9f]/g, (it) => `\\u00${it.charCodeAt(0).toString(16)}`);

const VALUE_CHARS_MAX = 120;

/** `12:30:05 INFO  ready level="A" …`, of one of pino's lines. */
export function toPlain(line: string): string {
  const { level, time, pid: _, hostname: __, msg, ...fields } = JSON.parse(line) as Record<string, unknown>;
  const clock = new Date(time as number).toTimeString().slice(0, 8);
  const label = (pino.levels.labels[level as number] ?? '').toUpperCase().padEnd(5);
  const said = Object.entries(fields).map(([name, value]) => `${name}=${cut(JSON.stringify(value))}`);
  return `${[clock, label, oneLine(typeof msg === 'string' ? msg : ''), ...said].join(' ')}\n`;
}

const cut = (text: string): string => (text.length <= VALUE_CHARS_MAX ? text : `${text.slice(0, VALUE_CHARS_MAX)}…`);

/** As JSON has it, without the quotes. */
const oneLine = (text: string): string => JSON.stringify(text).slice(1, -1).replaceAll('\\"', '"');
