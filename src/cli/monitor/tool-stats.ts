/** `ringfence tools --stats`: how tools were used, how they ended, how long they took and what they cost. */
import type { Client } from '../../client/client.ts';
import type { Usage, UsageCounts } from '../../store/audit/tool-usage.ts';
import { EXIT, harmless, print, printJson, say, UsageError } from '../output.ts';

export interface ToolStatsFlags {
  readonly json?: boolean;
  readonly hours?: string;
}

const HOURS_MAX = 744;

const HEAD = ['tool', 'calls', 'failed', 'refused', 'cached', 'p50', 'p99', 'cost'];

/** Prints a line for each tool, or for each period of one. Returns the exit code. */
export async function toolStats(
  name: string | undefined,
  { json, hours = '24' }: ToolStatsFlags,
  client: Pick<Client, 'request'>,
): Promise<number> {
  const wanted = Number(hours);
  if (!(Number.isInteger(wanted) && wanted >= 1 && wanted <= HOURS_MAX))
    throw new UsageError(`--hours must be a whole number from 1 to ${HOURS_MAX}, not ${hours}`);
  const params = { hours: wanted, tool: name };
  const { usage, ...rest } = await client.request('tools.stats', params);
  if (json) printJson({ ...rest, usage });
  else if (usage.tools.length === 0) say(`no call of ${name ?? 'any tool'} since ${usage.since}`);
  else for (const line of table(name === undefined ? rowsOf(usage) : periodsOf(usage))) print(harmless(line));
  if (usage.cut) say('the record has more calls of this time than are counted; older ones are left out');
  return EXIT.OK;
}

const rowsOf = ({ tools }: Usage): string[][] => [HEAD, ...tools.map((it) => [it.tool, ...cellsOf(it)])];

const periodsOf = ({ tools }: Usage): string[][] => [
  ['from', ...HEAD.slice(1)],
  ...tools.flatMap(({ overTime }) => overTime.map((it) => [it.at.slice(0, 16), ...cellsOf(it)])),
  ...tools.map((it) => ['together', ...cellsOf(it)]),
];

function cellsOf({ calls, failed, refused, cacheHits, p50Ms, p99Ms, usd }: UsageCounts): string[] {
  const inMs = (ms: number | undefined) => (ms === undefined ? '-' : `${ms} ms`);
  return [`${calls}`, `${failed}`, `${refused}`, `${cacheHits}`, inMs(p50Ms), inMs(p99Ms), usd === 0 ? '-' : `$${usd}`];
}

/** Lines whose columns stand below each other; the first is aligned left. */
function table(rows: readonly (readonly string[])[]): string[] {
  const widths = HEAD.map((_, at) => Math.max(...rows.map((row) => (row[at] ?? '').length)));
  return rows.map((row) =>
    row.map((cell, at) => (at === 0 ? cell.padEnd(widths[at] ?? 0) : cell.padStart(widths[at] ?? 0))).join('  '),
  );
}
