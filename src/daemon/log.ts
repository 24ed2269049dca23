/** The daemon's own log on standard error: a JSON object per line, for the journal with its priority; or short readable lines at a terminal. */
import { fstatSync } from 'node:fs';
import { pino } from 'pino';
import type { Log } from '../base/powers.ts';
import { escapeUnseen } from '../base/text/shown-text.ts';
import { type BoundedFile, boundLogFile } from './log-file.ts';

export const LOG_LEVELS: readonly string[] = [...Object.keys(pino.levels.values), 'silent'];

/** Bytes of lines that are kept for when they can be written again. */
const WAITING_BYTES_MAX = 64 * 1024;

export interface DaemonLog extends Log, Pick<pino.Logger, 'fatal'> {
  /** Bounds the file at `path` if the log is appended to it. */
  bound(path: string, bytesMax: number): void;
}

/** Creates the log; `journalStream` is JOURNAL_STREAM of the environment. */
export function createLog(level: string, journalStream?: string): DaemonLog {
  const isTerminal = process.stderr.isTTY;
  const isJournal = isStandardError(journalStream);
  let file: BoundedFile | undefined;
  const streamWrite = (line: string): string => {
    const written = escapeUnseen(isTerminal ? toPlain(line) : isJournal ? withPriority(line) : line);
    file?.wrote(Buffer.byteLength(written));
    return written;
  };
  const stream = pino.destination({ fd: 2, sync: true, maxLength: WAITING_BYTES_MAX });
  // The disk is full, or nobody reads any more: the daemon goes on, and lines are lost.
  stream.on('error', () => {});
  const log = pino(
    { level, timestamp: !isJournal, serializers: { error: pino.stdSerializers.err }, hooks: { streamWrite } },
    stream,
  );
  return Object.assign(log, {
    bound(path: string, bytesMax: number) {
      file = boundLogFile(path, bytesMax);
    },
  });
}

/** Whether standard error is the stream of this name, `device:inode`: systemd names the one that its journal reads. */
function isStandardError(journalStream: string | undefined): boolean {
  if (journalStream === undefined) return false;
  const { dev, ino } = fstatSync(2, { bigint: true });
  return journalStream === `${dev}:${ino}`;
}

/** Priorities of syslog, by levels of pino; lower levels are debugging. */
const PRIORITIES: readonly [level: number, priority: number][] = [
  [60, 2],
  [50, 3],
  [40, 4],
  [30, 6],
];
const DEBUG = 7;

/** Adds the prefix from which the journal takes the priority of a line. */
export function withPriority(line: string): string {
  const level = Number(/^\{"level":(\d+)/.exec(line)?.[1]);
  const [, priority = DEBUG] = PRIORITIES.find(([from]) => level >= from) ?? [];
  return `<${priority}>${line}`;
}

const VALUE_CHARS_MAX = 120;

/** Turns one of pino's lines into `12:30:05 INFO ready level="A" …`. */
export function toPlain(line: string): string {
  const { level, time, pid: _, hostname: __, msg, ...fields } = JSON.parse(line) as Record<string, unknown>;
  const clock = new Date(time as number).toTimeString().slice(0, 8);
  const label = (pino.levels.labels[level as number] ?? '').toUpperCase().padEnd(5);
  const said = Object.entries(fields).map(([name, value]) => `${name}=${cut(JSON.stringify(value))}`);
  return `${[clock, label, oneLine(typeof msg === 'string' ? msg : ''), ...said].join(' ')}\n`;
}

const cut = (text: string): string => (text.length <= VALUE_CHARS_MAX ? text : `${text.slice(0, VALUE_CHARS_MAX)}…`);

/** Escaped as in JSON, without the quotes. */
const oneLine = (text: string): string => JSON.stringify(text).slice(1, -1).replaceAll('\\"', '"');
