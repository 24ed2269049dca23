/**
 * Costs of calls by tier and UTC day, principal and session, which limits hold; and by tool, which a person reads. Amounts are whole millionths of a dollar internally, so that sums are exact;
 * the interface uses dollars. A reservation counts as spent until it is settled or released.
 */
import type { DatabaseSync } from 'node:sqlite';
import type { Tier } from '../base/call.ts';
import { ToolError } from '../base/errors.ts';
import type { Limits } from '../base/limits.ts';
import type { Powers } from '../base/powers.ts';
import { atomically, openDatabase, type Prepared, prepared } from './database.ts';

/** Costs that are summed together: everybody's in a day, a principal's in a day, or a session's over its lifetime. */
export type CostScope = 'day' | 'principal' | 'session';

/** Limits for one tier, in USD. */
export interface CostLimits {
  /** Hard limits. */
  readonly max: Readonly<Partial<Record<CostScope, number>>>;
  /** Soft limit: a person is asked when the costs of a day exceed it. */
  readonly dayAskAbove?: number;
}

/** The tier, principal and session that a call's cost is charged to. */
export interface Payer {
  readonly tier: Tier;
  readonly principal: string;
  readonly sessionId: string;
}

export interface CostRequest extends Payer {
  readonly callId: string;
  readonly tool: string;
  readonly limits: CostLimits;
}

/** What the calls of a principal to a tool cost in a day; reservations of calls that still run included. */
export interface ToolCost {
  /** UTC, as 2026-01-31. */
  readonly day: string;
  readonly principal: string;
  readonly tool: string;
  readonly calls: number;
  readonly usd: number;
}

/** Money set aside for one call. Only the first call of `settle` or `release` counts. */
export interface CostReservation {
  /** Reserved amount in USD. */
  readonly usd: number;
  /** Whether the reservation exceeds the soft limit. */
  readonly ask: boolean;
  /** Books the actual cost, or the reserved amount if it is unknown; returns the booked amount in USD. */
  settle(actualUsd?: number): number;
  /** Returns the whole reservation, for a call that never started. */
  release(): void;
}

/*
 * A total has one row for each day, also for sessions, so that totals expire by day. `lost` marks a call whose daemon ended before its cost
 * was settled; the reserved amount stays spent.
 */
const SCHEMA = `
  CREATE TABLE IF NOT EXISTS totals (scope TEXT NOT NULL, who TEXT NOT NULL, tier TEXT NOT NULL, day TEXT NOT NULL,
    micros INTEGER NOT NULL, PRIMARY KEY (scope, who, tier, day)) STRICT, WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS tools (day TEXT NOT NULL, principal TEXT NOT NULL, tool TEXT NOT NULL,
    calls INTEGER NOT NULL, micros INTEGER NOT NULL, PRIMARY KEY (day, principal, tool)) STRICT, WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS reservations (id INTEGER PRIMARY KEY, day TEXT NOT NULL, tier TEXT NOT NULL,
    principal TEXT NOT NULL, session_id TEXT NOT NULL, call_id TEXT NOT NULL, micros INTEGER NOT NULL,
    lost INTEGER NOT NULL DEFAULT 0) STRICT;`;

const KEY = 'scope = ? AND who = ? AND tier = ?';
const STATEMENTS = {
  sum: `SELECT sum(micros) AS micros FROM totals WHERE ${KEY} AND day = ?`,
  sumOfDays: `SELECT sum(micros) AS micros FROM totals WHERE ${KEY}`,
  add: `INSERT INTO totals (scope, who, tier, day, micros) VALUES (?, ?, ?, ?, ?)
      ON CONFLICT DO UPDATE SET micros = micros + excluded.micros`,
  forgetEmpty: `DELETE FROM totals WHERE ${KEY} AND day = ? AND micros = 0`,
  addToTool: `INSERT INTO tools (day, principal, tool, calls, micros) VALUES (?, ?, ?, ?, ?)
      ON CONFLICT DO UPDATE SET calls = calls + excluded.calls, micros = micros + excluded.micros`,
  forgetUncalled: 'DELETE FROM tools WHERE day = ? AND principal = ? AND tool = ? AND calls = 0',
  insert: 'INSERT INTO reservations (day, tier, principal, session_id, call_id, micros) VALUES (?, ?, ?, ?, ?, ?)',
  delete: 'DELETE FROM reservations WHERE id = ?',
};

const DAY_MS = 86_400_000;
const MICROS = 1_000_000;
/** Upper bound of a total. Integers below it are exact in JavaScript; half of the range is left for settling open reservations. */
const TOTAL_MICROS_MAX = Number.MAX_SAFE_INTEGER / 2;

type Micros = Record<CostScope, number>;

/** A change of the rows of a call. */
interface Change {
  readonly micros: number;
  readonly calls: number;
}

const toUsd = (micros: number): number => micros / MICROS;
/** Rounds up, so that no cost is too small to count; the tolerance absorbs binary rounding: 0.1 is 100 000, not 100 001. */
const toMicros = (usd: number): number => Math.max(0, Math.ceil(usd * MICROS - 1e-6));
const toLimit = (usd = Infinity): number => Math.floor(usd * MICROS + 1e-6);

export class CostLedger implements Disposable {
  readonly #database: DatabaseSync;
  readonly #limits: Limits;
  readonly #powers: Powers;
  readonly #statements: Prepared<typeof STATEMENTS>;
  #day = '';

  /** Opens the file at `path`, which only this process uses, and marks reservations of an earlier daemon as lost. */
  constructor(path: string, limits: Limits, powers: Powers) {
    this.#database = openDatabase(path, SCHEMA);
    this.#limits = limits;
    this.#powers = powers;
    this.#statements = prepared(this.#database, STATEMENTS);
    const { changes } = this.#database.prepare('UPDATE reservations SET lost = 1 WHERE lost = 0').run();
    if (changes > 0) powers.log.warn({ calls: changes }, 'interrupted calls are charged their estimated cost');
    this.#today();
  }

  /**
   * Reserves `usd`, checked and written in one transaction. Throws COST_LIMIT if a limit would be exceeded or `usd` is no valid cost of one
   * call (negative, not finite, over callCostUsdMax), and STORE_FAILED if it can't be written. Free calls always pass. Limits apply to the
   * reservation; a call that costs more is booked in full.
   */
  reserve(usd: number, request: CostRequest): CostReservation {
    const max = this.#limits.callCostUsdMax;
    if (!(usd >= 0 && usd <= max)) {
      throw new ToolError('COST_LIMIT', `a call may cost 0 to ${max} USD; this one is estimated at ${usd}`, {
        details: { limitUsd: max, per: 'call' },
      });
    }
    const micros = toMicros(usd);
    const { id, ask, day } = this.#write(() => this.#book(micros, request));
    let open = true;
    const close = (booked: number, calls = 0): number => {
      if (open) this.#close({ id, day, request, change: { micros: booked - micros, calls } });
      open = false;
      return toUsd(booked);
    };
    return {
      usd: toUsd(micros),
      ask,
      // A host's report of a cost is capped at the most that one call may cost.
      settle: (actual) => close(isCost(actual) ? toMicros(Math.min(actual, max)) : micros),
      release: () => void close(0, -1),
    };
  }

  /** Spent amounts in USD, reservations included: today in total, today by the principal, and in the session. */
  spentUsd(payer: Payer): Record<CostScope, number> {
    const { day, principal, session } = this.#spent(payer, this.#today());
    return { day: toUsd(day), principal: toUsd(principal), session: toUsd(session) };
  }

  /** What tools cost in the last `days` UTC days, today included; the newest day and the greatest cost first. */
  byTool(days: number): ToolCost[] {
    this.#today();
    const sql = `SELECT day, principal, tool, calls, micros FROM tools WHERE day > ?
      ORDER BY day DESC, micros DESC, tool LIMIT ${this.#limits.costRowsMax}`;
    const rows = this.#database.prepare(sql).all(toDay(this.#powers.now() - days * DAY_MS));
    return (rows as unknown as (Omit<ToolCost, 'usd'> & { micros: number })[]).map(({ micros, ...it }) => ({
      ...it,
      usd: toUsd(micros),
    }));
  }

  /** Number and reserved amount of calls that were open when a daemon ended. */
  lostReservations(): { calls: number; usd: number } {
    const sql = 'SELECT count(*) AS calls, total(micros) AS micros FROM reservations WHERE lost = 1';
    const { calls, micros } = this.#database.prepare(sql).get() as { calls: number; micros: number };
    return { calls, usd: toUsd(micros) };
  }

  /** Closes the file; open reservations count as lost when it is opened again. */
  [Symbol.dispose](): void {
    if (this.#database.isOpen) this.#database.close();
  }

  #book(micros: number, request: CostRequest): { id: number | bigint; ask: boolean; day: string } {
    const { tier, principal, sessionId, callId, limits } = request;
    const day = this.#today();
    const spent = this.#spent(request, day);
    for (const scope of SCOPES) {
      const limit = Math.min(toLimit(limits.max[scope]), TOTAL_MICROS_MAX);
      if (micros > 0 && spent[scope] + micros > limit)
        throw overLimit({ scope, micros, spent: spent[scope], limit, request });
    }
    this.#change(request, day, { micros, calls: 1 });
    const { lastInsertRowid: id } = this.#statements.insert.run(day, tier, principal, sessionId, callId, micros);
    return { id, day, ask: micros > 0 && spent.day + micros > toLimit(limits.dayAskAbove) };
  }

  /** Books the final cost. The call is already over, so a write error must not fail it: the money stays reserved. */
  #close({
    id,
    day,
    request,
    change,
  }: {
    id: number | bigint;
    day: string;
    request: CostRequest;
    change: Change;
  }): void {
    if (!this.#database.isOpen) return;
    try {
      this.#write(() => {
        this.#change(request, day, change);
        this.#statements.delete.run(id);
      });
    } catch (error) {
      this.#powers.log.error({ error: (error as Error).cause }, 'the cost of a call could not be settled');
    }
  }

  #spent({ tier, principal, sessionId }: Payer, day: string): Micros {
    const of = (row: unknown) => (row as { micros: number | null }).micros ?? 0;
    return {
      day: of(this.#statements.sum.get('day', '', tier, day)),
      principal: of(this.#statements.sum.get('principal', principal, tier, day)),
      session: of(this.#statements.sumOfDays.get('session', sessionId, tier)),
    };
  }

  #change({ tier, principal, sessionId, tool }: CostRequest, day: string, { micros, calls }: Change): void {
    this.#statements.addToTool.run(day, principal, tool, calls, micros);
    if (calls < 0) this.#statements.forgetUncalled.run(day, principal, tool);
    if (micros === 0) return;
    const keys = [
      ['day', ''],
      ['principal', principal],
      ['session', sessionId],
    ] as const;
    for (const [scope, who] of keys) {
      this.#statements.add.run(scope, who, tier, day, micros);
      // Removes empty rows, so that refused calls leave nothing behind, however many sessions make them.
      if (micros < 0) this.#statements.forgetEmpty.run(scope, who, tier, day);
    }
  }

  /** The current UTC day; on a new day everything older than costDaysKept is forgotten. */
  #today(): string {
    const nowMs = this.#powers.now();
    const day = toDay(nowMs);
    if (day === this.#day) return day;
    this.#day = day;
    const oldest = toDay(nowMs - this.#limits.costDaysKept * DAY_MS);
    this.#database.prepare('DELETE FROM totals WHERE day < ?').run(oldest);
    this.#database.prepare('DELETE FROM tools WHERE day < ?').run(oldest);
    this.#database.prepare('DELETE FROM reservations WHERE lost = 1 AND day < ?').run(oldest);
    return day;
  }

  #write<T>(change: () => T): T {
    try {
      return atomically(this.#database, change);
    } catch (error) {
      if (error instanceof ToolError) throw error;
      throw new ToolError('STORE_FAILED', 'the cost of the call could not be recorded', { cause: error });
    }
  }
}

/** Scopes in the order in which they are checked. */
const SCOPES: readonly CostScope[] = ['session', 'principal', 'day'];

const toDay = (ms: number): string => new Date(ms).toISOString().slice(0, 10);

const isCost = (usd: number | undefined): usd is number => usd !== undefined && Number.isFinite(usd) && usd >= 0;

interface CostExcess {
  readonly scope: CostScope;
  readonly micros: number;
  readonly spent: number;
  readonly limit: number;
  readonly request: CostRequest;
}

const WHOSE: Record<CostScope, string> = { day: 'a day', principal: 'a day and principal', session: 'a session' };

function overLimit({ scope, micros, spent, limit, request: { tier } }: CostExcess): ToolError {
  const message = `a call of tier ${tier} for ${toUsd(micros)} USD would pass ${toUsd(limit)} USD ${WHOSE[scope]}: ${toUsd(spent)} are spent or reserved`;
  return new ToolError('COST_LIMIT', message, {
    ...(scope !== 'session' && { suggestion: 'The day ends at midnight UTC.' }),
    details: { spentUsd: toUsd(spent), limitUsd: toUsd(limit), per: scope },
  });
}
