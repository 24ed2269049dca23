/** `ringfence top`: sessions, calls, hosts and rates, drawn again each second. */

import { setTimeout as wait } from 'node:timers/promises';
import type * as z from 'zod';
import type { HostStatus } from '../../base/call.ts';
import { systemPowers } from '../../base/powers.ts';
import { showLine } from '../../base/text/shown-text.ts';
import type { Client } from '../../client/client.ts';
import type { Family } from '../../store/telemetry/families.ts';
import type { runningCall } from '../../wire/protocol/shapes.ts';
import { shortId } from '../ids.ts';
import { EXIT, print, printJson } from '../output.ts';
import type { Status } from '../status.ts';

type TopStatus = Pick<Status, 'uptimeMs' | 'version' | 'pid' | 'rssBytes' | 'calls' | 'openSessions'> & {
  readonly hosts: readonly HostStatus[];
};
type TopCall = Pick<z.output<typeof runningCall>, 'callId' | 'tool' | 'createdAt' | 'state' | 'client' | 'effects'>;

/** Rates since the look before; undefined at the first look. */
interface Rates {
  readonly callsPerSecond: number;
  readonly failuresPerSecond: number;
  readonly meanMs: number;
}

/** What one look at the daemon found. */
export interface Snapshot {
  readonly status: TopStatus;
  readonly calls: readonly TopCall[];
  readonly nowMs: number;
  readonly rates?: Rates | undefined;
}

interface Totals {
  readonly atMs: number;
  readonly calls: number;
  readonly failures: number;
  readonly seconds: number;
}

interface Screen {
  readonly input: NodeJS.ReadStream;
  readonly output: NodeJS.WriteStream;
}

const EVERY_MS = 1000;
const CTRL_C = '\u0003';
/** Switches to the terminal's other screen, so that what was on the screen comes back, without a cursor; wide characters may not wrap. */
const ENTER = '\u001b[?1049h\u001b[?25l\u001b[?7l';
const LEAVE = '\u001b[?7h\u001b[?25h\u001b[?1049l';
const HOME = '\u001b[H';
const REST_OF_LINE = '\u001b[K';
const REST_OF_SCREEN = '\u001b[J';

/**
 * Draws until q or Ctrl-C; draws once with `once`, `json`, or if there is no terminal. Returns the exit code.
 */
export async function top(
  { json, once }: { readonly json?: boolean; readonly once?: boolean },
  client: Pick<Client, 'request'>,
  { input, output }: Screen,
): Promise<number> {
  if (json || once || !output.isTTY || !input.isTTY) {
    const { snapshot } = await look(client);
    if (json) printJson(snapshot);
    else print(topLines(snapshot, output.columns ?? COLUMNS).join('\n'));
    return EXIT.OK;
  }
  const quit = new AbortController();
  const onKey = (key: Buffer) => {
    if (['q', 'Q', CTRL_C].includes(key.toString('latin1'))) quit.abort();
  };
  input.setRawMode(true).on('data', onKey).resume();
  output.write(ENTER);
  try {
    for (let before: Totals | undefined; !quit.signal.aborted; ) {
      const { snapshot, totals } = await look(client, before);
      before = totals;
      const lines = topLines(snapshot, output.columns).slice(0, output.rows - 1);
      output.write(`${HOME}${lines.map((it) => `${it}${REST_OF_LINE}`).join('\r\n')}${REST_OF_SCREEN}`);
      await wait(EVERY_MS, undefined, { signal: quit.signal }).catch(() => {}); // An AbortError: a key ended it.
    }
  } finally {
    output.write(LEAVE);
    input.setRawMode(false).off('data', onKey).pause();
  }
  return EXIT.OK;
}

async function look(client: Pick<Client, 'request'>, before?: Totals): Promise<{ snapshot: Snapshot; totals: Totals }> {
  const [status, { calls }, { families }] = await Promise.all([
    client.request('status', {}) as Promise<TopStatus>,
    client.request('calls.list', { everywhere: true }) as Promise<{ calls: TopCall[] }>,
    client.request('metrics.read', { format: 'json' }) as Promise<{ families: Family[] }>,
  ]);
  const powers = systemPowers();
  const totals = totalsOf(families, powers.monotonicMs());
  const rates = before && ratesOf(before, totals);
  return { snapshot: { status, calls, nowMs: powers.now(), rates }, totals };
}

function totalsOf(families: readonly Family[], atMs: number): Totals {
  const sum = (name: string, suffix?: string, isCounted = (_: string | undefined) => true) =>
    (families.find((it) => it.name === name)?.samples ?? [])
      .filter((it) => it.suffix === suffix && isCounted(it.labels?.outcome))
      .reduce((total, { value }) => total + value, 0);
  return {
    atMs,
    calls: sum('ringfence_calls_total'),
    failures: sum('ringfence_calls_total', undefined, (outcome) => outcome !== 'ok'),
    seconds: sum('ringfence_call_duration_seconds', '_sum'),
  };
}

function ratesOf(before: Totals, now: Totals): Rates {
  const seconds = (now.atMs - before.atMs) / 1000;
  const calls = now.calls - before.calls;
  return {
    callsPerSecond: calls / seconds,
    failuresPerSecond: (now.failures - before.failures) / seconds,
    meanMs: calls === 0 ? 0 : ((now.seconds - before.seconds) / calls) * 1000,
  };
}

const COLUMNS = 80;
const MiB = 1024 * 1024;

/** The screen, as lines that are no longer than `columns`. Names and targets are made harmless before they are cut. */
export function topLines({ status, calls, rates, nowMs }: Snapshot, columns: number): string[] {
  const { version, pid, uptimeMs, rssBytes, openSessions, hosts } = status;
  const { running, queued, blocked } = status.calls;
  const rate = rates
    ? `${rates.callsPerSecond.toFixed(1)} calls/s, ${rates.failuresPerSecond.toFixed(1)} failed/s, mean ${rates.meanMs.toFixed(1)} ms`
    : 'rates after the first second';
  const lines = [
    `ringfence ${version}  pid ${pid}  up ${duration(uptimeMs)}  ${Math.round(rssBytes / MiB)} MiB`,
    `${running} running, ${queued} queued, ${blocked} waiting for a person  ${rate}`,
    '',
    `SESSION   CALLS  CLIENT                WORKSPACE`,
    ...openSessions.map(
      (it) =>
        `${shortId(it.sessionId).padEnd(9)} ${right(it.calls, 5)}  ${left(it.client, 20)}  ${showLine(it.workspace)}`,
    ),
    '',
    `CALL      STATE            TIME    TOOL                WHAT`,
    ...calls.map((it) => {
      const what = it.effects.map(({ target }) => target).join(', ');
      const time = duration(nowMs - Date.parse(it.createdAt));
      return `${left(shortId(it.callId), 8)}  ${left(it.state.status, 15)}  ${time.padEnd(6)}  ${left(it.tool, 18)}  ${showLine(what)}`;
    }),
    '',
    `HOST          PID      BUSY   MIB      CPU  WORKSPACE`,
    ...hosts.map(
      (it) =>
        `${left(it.tier, 12)}  ${String(it.pid).padEnd(7)}  ${`${it.busy}/${it.threads}`.padEnd(5)}  ${right(Math.round(it.rssBytes / MiB), 3)}  ${right(duration(it.cpuMs), 7)}  ${showLine(it.workspace)}`,
    ),
  ];
  return lines.map((it) => cut(it, columns));
}

const right = (value: number | string, width: number): string => String(value).padStart(width);
const left = (text: string, width: number): string => cut(showLine(text), width).padEnd(width);

/** Cuts by code points, so that no half of a pair is left. */
function cut(text: string, width: number): string {
  const characters = Array.from(text);
  return characters.length <= width ? text : `${characters.slice(0, width - 1).join('')}…`;
}

function duration(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  return seconds < 3600 ? `${Math.floor(seconds / 60)} min` : `${Math.floor(seconds / 3600)} h`;
}
