import type { Client } from '../../client/client.ts';
import type { AuditRecord } from '../../store/audit/entry.ts';
import { type ExportFormat, toExportLine } from '../../store/audit/export.ts';
import { type AuditFilter, isInstant } from '../../store/audit/query.ts';
import type { Pruned, Verification } from '../../store/audit/verify.ts';
import { EXIT, harmless, type JsonFlag, print, printJson, say, UsageError } from '../output.ts';

/** A connection with the operator role. */
export type AuditClient = Pick<Client, 'request'>;

export interface AuditQueryFlags extends Omit<AuditFilter, 'order'> {
  /** Number of entries, the most recent ones; 50 when absent. */
  readonly limit?: number;
  readonly json?: boolean;
}

/** `ringfence audit query`: prints the most recent entries, the newest last. Returns the exit code. */
export async function auditQuery(flags: AuditQueryFlags, client: AuditClient): Promise<number> {
  const { limit, filter } = toFilter(flags);
  const entries: AuditRecord[] = [];
  for await (const entry of allEntries({ ...filter, order: 'newest' }, client, limit)) entries.push(entry);
  entries.reverse();
  if (flags.json) printJson(entries);
  else if (entries.length === 0) say('no entries match');
  else for (const line of toTable([ENTRY_TITLES, ...entries.map(toEntryRow)])) print(line);
  return EXIT.OK;
}

const LIMIT = 50;

/** The filter and number of entries from the flags. Throws UsageError. */
export function toFilter({ limit = LIMIT, json: _, callId, ...filter }: AuditQueryFlags): {
  limit: number;
  filter: AuditFilter;
} {
  if (!Number.isSafeInteger(limit) || limit < 1)
    throw new UsageError(`--limit must be a whole number of at least 1, not ${limit}`);
  for (const [name, value] of Object.entries({ since: filter.since, until: filter.until }))
    if (value !== undefined && !isInstant(value))
      throw new UsageError(
        `--${name} takes a date such as 2026-03-01 or 2026-03-01T12:00:00Z, or an age such as 30d, 12h, 90m, 10s; not ${harmless(value)}`,
      );
  return { limit, filter: { ...filter, callIdPart: callId } };
}

/** `ringfence audit verify`. Returns 0 if the log is intact, 1 if not. */
export async function auditVerify(client: AuditClient, flags: JsonFlag = {}): Promise<number> {
  const it = await client.request('audit.verify', {});
  if (flags.json) printJson(it);
  else if (it.ok) {
    print(`${it.entries} entries, none changed and none missing`);
    if (it.droppedBefore !== undefined) say(`entries before ${it.droppedBefore} were deleted${whyOf(it)}`);
    if (it.pruned) say(toPruned(it.pruned));
  } else {
    const from = it.firstBroken === undefined ? '' : ` from entry ${it.firstBroken}`;
    say(
      `the audit log is broken${from}: ${safe(it.reason ?? 'no reason given')} (the ${it.entries} entries before are intact)`,
    );
  }
  return it.ok ? EXIT.OK : EXIT.FAILED;
}

const whyOf = ({ droppedBefore = 0, droppedForSize, pruned }: Verification): string => {
  if (droppedForSize !== undefined) return `, up to ${droppedForSize} to make room`;
  return pruned?.upTo === droppedBefore - 1 ? '' : ' because of their age';
};

const toPruned = ({ by, at, upTo, entry }: Pruned): string =>
  safe(`${by} removed those up to ${upTo} at ${at} with \`audit prune\` (entry ${entry})`);

/** `ringfence audit export`: prints all matching entries, oldest first, one line each. Returns the exit code. */
export async function auditExport(format: ExportFormat, flags: AuditQueryFlags, client: AuditClient): Promise<number> {
  const { filter } = toFilter(flags);
  for await (const entry of allEntries({ ...filter, order: 'oldest' }, client)) print(toExportLine(format, entry));
  return EXIT.OK;
}

const PAGE = 1000;

/** Entries fetched page by page, at most `limit`. */
export async function* allEntries(filter: AuditFilter, client: AuditClient, limit = Number.MAX_SAFE_INTEGER) {
  let cursor: string | undefined;
  for (let left = limit; left > 0; ) {
    const request = { ...filter, limit: Math.min(left, PAGE), cursor };
    const page = await client.request('audit.query', request);
    yield* page.entries;
    left -= page.entries.length;
    cursor = page.cursor;
    if (cursor === undefined) return;
  }
}

/** Text from outside as one line: it must neither control the terminal nor break the table. */
const safe = (text: string): string =>
  harmless(text)
    .replaceAll(/[\n\t]/g, ' ')
    .replaceAll(/[\p{Bidi_Control}\u2028\u2029]/gu, '?');

const WIDEST = 48;

/** A cell; the last one of a row is shown whole, since nothing stands behind it. */
const cell = (text: string, at: number, row: readonly string[]): string => {
  const shown = safe(text);
  if (at === row.length - 1) return shown;
  return shown.length > WIDEST ? `${shown.slice(0, WIDEST - 1)}…` : shown;
};

const ENTRY_TITLES = ['SEQ', 'AT', 'KIND', 'SESSION', 'WHO', 'TOOL', 'DECISION', 'RESULT', 'MS', 'WHAT'];

const toEntryRow = (it: AuditRecord): string[] => [
  ...[String(it.seq), it.at, it.kind, it.sessionId.slice(-8), it.principal, it.tool ?? '', it.decision ?? ''],
  ...[resultOf(it), it.durationMs?.toFixed(1) ?? '', whatOf(it)],
];

/** Rows as lines with aligned columns; the first row holds the titles. */
export function toTable(rows: readonly (readonly string[])[]): string[] {
  const cells = rows.map((row) => row.map(cell));
  const widths = cells.reduce<number[]>((widest, row) => row.map((it, at) => Math.max(it.length, widest[at] ?? 0)), []);
  return cells.map((row) =>
    row
      .map((it, at) => it.padEnd(widths[at] as number))
      .join('  ')
      .trimEnd(),
  );
}

/** The result in a word, with the rule if one refused the call. */
export function resultOf({ code, kind, outcome, rule }: AuditRecord): string {
  if (code !== undefined) return rule === undefined ? code : `${code} (${rule})`;
  return outcome ?? (kind === 'outcome' ? 'ok' : '');
}

/** The first effect, otherwise the detail or input. */
export function whatOf({ effects, detail, input }: AuditRecord): string {
  if (Array.isArray(effects) && effects.length > 0) {
    const more = effects.length > 1 ? ` and ${effects.length - 1} more` : '';
    return `${effects[0]?.kind} ${effects[0]?.target}${more}`;
  }
  const other = detail ?? input;
  return other === undefined ? '' : JSON.stringify(other);
}
