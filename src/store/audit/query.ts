/** Queries on the audit log: translates filters to SQL and reads in slices that never block the event loop for long. */
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { RpcError, ToolError } from '../../base/errors.ts';
import type { Limits } from '../../base/limits.ts';
import type { Powers } from '../../base/powers.ts';
import { TimeSlices } from '../time-slices.ts';
import type { AuditKind, AuditRecord, AuditRow } from './entry.ts';
import { toRecord } from './entry.ts';

export interface AuditFilter {
  readonly tool?: string | undefined;
  readonly session?: string | undefined;
  readonly callId?: string | undefined;
  readonly kind?: AuditKind | undefined;
  /** Only entries about calls: intents, outcomes, refusals and approvals. */
  readonly calls?: boolean | undefined;
  /** Part of a call id: its beginning or its end. */
  readonly callIdPart?: string | undefined;
  /** True selects outcomes without an error code, false outcomes and refusals with one. */
  readonly success?: boolean | undefined;
  /** True selects intents whose outcome never came, since the daemon ended before it. */
  readonly unknown?: boolean | undefined;
  /** Earliest time, inclusive: ISO 8601, or an age such as `30d`, `12h`, `90m`, `10s`. */
  readonly since?: string | undefined;
  /** Latest time, exclusive; same form as `since`. */
  readonly until?: string | undefined;
  /** Part of a tool's name, an input, an effect, an error code or a detail; case counts for no ASCII letter. */
  readonly text?: string | undefined;
  /** Default: newest first. */
  readonly order?: 'newest' | 'oldest' | undefined;
}

export interface AuditPageRequest extends AuditFilter {
  /** Number of entries; 100 when absent, at most auditQueryMax. */
  readonly limit?: number | undefined;
  /** Cursor from the previous page. */
  readonly cursor?: string | undefined;
}

export interface AuditPage {
  readonly entries: AuditRecord[];
  /** Present when there may be more. */
  readonly cursor?: string | undefined;
}

/** The range of existing entries. */
export interface SeqRange {
  readonly first: number;
  readonly last: number;
  /** First seq of this run of the daemon; intents that were open before will never get an outcome. */
  readonly firstOfRun: number;
}

export interface FoundRow {
  readonly row: AuditRow;
  /** Whether the row is an intent whose outcome never came. */
  readonly isOpen: boolean;
}

/** Most entries that one statement scans, which takes a few milliseconds without an index. */
const SLICE = 4096;
/** Most entries that one statement searches for a text, which reads their inputs. */
const TEXT_SLICE = 128;
/** Most rows that one statement returns; at their largest, 64 rows are 12 MiB. */
const ROWS = 64;

const CONDITIONS = {
  // Comes first, since it refers to its value by number.
  callIdPart: '(substr(callId, 1, length(?1)) = ?1 OR substr(callId, -length(?1)) = ?1)',
  tool: 'tool = ?',
  session: 'sessionId = ?',
  callId: 'callId = ?',
  kind: 'kind = ?',
  since: 'at >= ?',
  until: 'at < ?',
  text: "concat_ws(' ', tool, code, effects, detail, input) LIKE ? ESCAPE '\\'",
} as const;

/** A pattern of LIKE for entries that contain the text as JSON has it. */
const toPattern = (text: string): string => {
  const written = JSON.stringify(text).slice(1, -1);
  return `%${written.replace(/[\\%_]/g, '\\$&')}%`;
};

const CALLS = "kind IN ('intent', 'outcome', 'refusal', 'approval') AND callId IS NOT NULL";
const INTENT = "kind = 'intent'";
const SUCCESS = "kind = 'outcome' AND code IS NULL";
const FAILURE = "kind IN ('outcome', 'refusal') AND code IS NOT NULL";

const AGE = /^(\d{1,9})([smhd])$/;
const UNITS: Record<string, number> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** `Date.parse` accepts much more: it reads `5` as a day in May 2001. */
const ISO_8601 = /^\d{4}-\d\d(-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:?\d\d)?)?)?$/;

/** Whether `since` and `until` accept the text. */
export const isInstant = (text: string): boolean =>
  AGE.test(text) || (ISO_8601.test(text) && Date.parse(text) > -8.64e15);

/** An age such as `30d` in milliseconds; undefined for another text. */
export function ageMsOf(text: string): number | undefined {
  const age = AGE.exec(text);
  return age ? Number(age[1]) * (UNITS[age[2] as string] as number) : undefined;
}

/** The time in UTC as ISO 8601, as in entries. Throws RpcError INVALID_PARAMS. */
function toInstant(text: string, nowMs: number): string {
  const ms = ISO_8601.test(text) ? Date.parse(text) : nowMs - (ageMsOf(text) ?? Number.NaN);
  if (!(Math.abs(ms) <= 8.64e15))
    throw new RpcError(
      'INVALID_PARAMS',
      `${text.slice(0, 64)} is neither an ISO 8601 date nor an age such as 30d or 12h`,
    );
  return new Date(ms).toISOString();
}

export class AuditQueries {
  readonly #database: DatabaseSync;
  readonly #limits: Limits;
  readonly #powers: Powers;
  readonly #answered: StatementSync;
  /** One statement for each combination of conditions and order; at most 6144. */
  readonly #prepared = new Map<string, StatementSync>();

  constructor(database: DatabaseSync, limits: Limits, powers: Powers) {
    this.#database = database;
    this.#limits = limits;
    this.#powers = powers;
    this.#answered = database.prepare(
      "SELECT 1 FROM audit WHERE sessionId = ? AND callId = ? AND seq > ? AND kind IN ('outcome', 'refusal') LIMIT 1",
    );
  }

  /**
   * One page of entries. Rejects with RpcError INVALID_PARAMS for an invalid date or cursor, ToolError SHUTTING_DOWN if the log is closed
   * meanwhile.
   */
  async page(request: AuditPageRequest, extent: SeqRange): Promise<AuditPage> {
    const { auditQueryMax, auditQueryCharsMax } = this.#limits;
    const limit = Math.min(request.limit ?? 100, auditQueryMax);
    const entries: AuditRecord[] = [];
    let chars = 0;
    for await (const { row, isOpen } of this.rows(request, startAt(request, extent))) {
      entries.push(toRecord(row, isOpen));
      for (const text of [row.input, row.effects, row.detail]) chars += (text as string | null)?.length ?? 0;
      if (entries.length >= limit || chars >= auditQueryCharsMax) return { entries, cursor: String(row.seq) };
    }
    return { entries };
  }

  /** All entries in `extent` that match the filter, in its order. */
  async *records(filter: AuditFilter, extent: SeqRange): AsyncGenerator<AuditRecord> {
    for await (const { row, isOpen } of this.rows(filter, extent)) yield toRecord(row, isOpen);
  }

  /** The same entries as rows of the table. */
  async *rows(filter: AuditFilter, { first, last, firstOfRun }: SeqRange): AsyncGenerator<FoundRow> {
    const isNewestFirst = filter.order !== 'oldest';
    this.#assertOpen();
    const { statement, values } = this.#prepare(filter, isNewestFirst);
    const slices = new TimeSlices(this.#powers);
    const slice = filter.text === undefined ? SLICE : TEXT_SLICE;
    let [low, high] = [first, last];
    // Calls of this run may still end.
    if (filter.unknown) high = Math.min(high, firstOfRun - 1);
    while (low <= high) {
      const from = isNewestFirst ? Math.max(low, high - slice + 1) : low;
      const to = isNewestFirst ? high : Math.min(high, low + slice - 1);
      const rows = statement.all(...values, from, to, ROWS) as unknown as AuditRow[];
      const found = rows.map((row) => ({ row, isOpen: (row.seq as number) < firstOfRun && this.#isOpen(row) }));
      yield* filter.unknown ? found.filter(({ isOpen }) => isOpen) : found;
      const reached = rows.length < ROWS ? undefined : (rows.at(-1)?.seq as number);
      if (isNewestFirst) high = (reached ?? from) - 1;
      else low = (reached ?? to) + 1;
      await slices.pause();
      this.#assertOpen(); // The log may have been closed while the consumer of this generator ran.
    }
  }

  #assertOpen(): void {
    if (!this.#database.isOpen) throw new ToolError('SHUTTING_DOWN', 'the audit log was closed');
  }

  #isOpen({ kind, sessionId, callId, seq }: AuditRow): boolean {
    return kind === 'intent' && this.#answered.get(sessionId, callId, seq) === undefined;
  }

  #prepare(filter: AuditFilter, isNewestFirst: boolean): { statement: StatementSync; values: string[] } {
    const resolved = { ...filter };
    const nowMs = this.#powers.now();
    if (filter.since !== undefined) resolved.since = toInstant(filter.since, nowMs);
    if (filter.until !== undefined) resolved.until = toInstant(filter.until, nowMs);
    if (filter.text !== undefined) resolved.text = toPattern(filter.text);
    const names = (Object.keys(CONDITIONS) as (keyof typeof CONDITIONS)[]).filter((it) => resolved[it] !== undefined);
    const conditions: string[] = names.map((it) => CONDITIONS[it]);
    if (filter.calls) conditions.push(CALLS);
    if (filter.unknown) conditions.push(INTENT);
    if (filter.success !== undefined) conditions.push(filter.success ? SUCCESS : FAILURE);
    conditions.push('seq BETWEEN ? AND ?');
    const sql = `SELECT * FROM audit WHERE ${conditions.join(' AND ')} ORDER BY seq ${isNewestFirst ? 'DESC' : 'ASC'} LIMIT ?`;
    let statement = this.#prepared.get(sql);
    if (!statement) {
      statement = this.#database.prepare(sql);
      this.#prepared.set(sql, statement);
    }
    return { statement, values: names.map((it) => resolved[it] as string) };
  }
}

function startAt({ cursor, order }: AuditPageRequest, extent: SeqRange): SeqRange {
  if (cursor === undefined) return extent;
  if (!/^\d{1,15}$/.test(cursor))
    throw new RpcError('INVALID_PARAMS', 'the cursor is not valid; pass one that this method returned');
  const seq = Number(cursor);
  if (order === 'oldest') return { ...extent, first: Math.max(extent.first, seq + 1) };
  return { ...extent, last: Math.min(extent.last, seq - 1) };
}
