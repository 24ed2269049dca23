/**
 * Limits entries that cost their caller nothing: refusals and sessions have no effect, and enough of them would push records of real
 * changes out of the log. Beyond the limit they are counted, and the count becomes one entry.
 */
import type { Limits } from '../../base/limits.ts';
import type { Powers, Timer } from '../../base/powers.ts';
import type { AuditBudget, AuditLevel } from './budget.ts';
import type { AuditEntry, AuditKind } from './entry.ts';

/** Kinds of entries that a caller can cause without any effect. */
const METERED: ReadonlySet<AuditKind> = new Set(['refusal', 'session']);
const MERGE_EVERY_MS = 10_000;
const MINUTE_MS = 60_000;
/** Most sessions counted separately at a time; the others of a principal are counted together. */
const MERGED_MAX = 64;
/** Number of buckets at which full ones are removed; a full bucket equals a missing one. */
const BUCKETS_MAX = 4096;

interface Bucket {
  left: number;
  atMs: number;
}

interface CoalescedEntries {
  readonly entry: Pick<AuditEntry, 'kind' | 'sessionId' | 'principal'>;
  n: number;
  /** Counts by error code and by tool; both sets are bounded. */
  readonly codes: Map<string, number>;
  readonly tools: Map<string, number>;
}

export interface AuditMeterParts {
  readonly limits: Limits;
  readonly powers: Powers;
  readonly budget: AuditBudget;
  /** Receives entries that stand for several. */
  append(entry: AuditEntry): void;
}

/** Most tool names in a merged entry; callers can invent names. */
const TOOLS_MAX = 64;

export class AuditMeter implements Disposable {
  readonly #limits: Limits;
  readonly #powers: Powers;
  readonly #budget: AuditBudget;
  readonly #append: (entry: AuditEntry) => void;
  readonly #buckets = new Map<string, Bucket>();
  #merged = new Map<string, CoalescedEntries>();
  #timer: Timer | undefined;

  constructor({ limits, powers, budget, append }: AuditMeterParts) {
    this.#limits = limits;
    this.#powers = powers;
    this.#budget = budget;
    this.#append = append;
  }

  /** Whether `entry` is recorded by itself; otherwise it is counted. `isReading` means that its call could change nothing. */
  admits(entry: AuditEntry, isReading: boolean): boolean {
    const { kind, sessionId, principal } = entry;
    const level = this.#budget.levelOf(principal);
    if (isReading && level !== 'whole') return this.#count(entry, level);
    if (!METERED.has(kind)) return true;
    if (level === 'full') return this.#count(entry, level);
    const { auditRefusalsPerMinute, auditRefusalsPerMinutePrincipal } = this.#limits;
    const ofPrincipal = this.#bucket(`${kind} ${principal}`, auditRefusalsPerMinutePrincipal);
    const ofSession = this.#bucket(`${kind} ${principal} ${sessionId}`, auditRefusalsPerMinute);
    if (ofPrincipal.left >= 1 && ofSession.left >= 1) {
      ofPrincipal.left -= 1;
      ofSession.left -= 1;
      return true;
    }
    return this.#count(entry, level);
  }

  /** Writes the counts as entries. */
  flush(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    const all = this.#merged;
    this.#merged = new Map();
    for (const { entry, n, codes, tools } of all.values()) {
      const [code] = [...codes].sort(([, a], [, b]) => b - a)[0] ?? [];
      const ofTools = entry.kind === 'outcome' ? { tools: Object.fromEntries(tools) } : {};
      const detail = { merged: n, codes: Object.fromEntries(codes), ...ofTools };
      this.#append({ ...entry, code, detail });
    }
  }

  [Symbol.dispose](): void {
    this.flush();
  }

  #count({ kind, sessionId, principal, code, tool }: AuditEntry, level: AuditLevel): false {
    const own = `${kind} ${principal} ${sessionId}`;
    // When the log is full, a principal gets one merged entry for all its sessions.
    const isKnown = level !== 'full' && (this.#merged.has(own) || this.#merged.size < MERGED_MAX);
    const key = isKnown ? own : `${kind} ${principal} `;
    const entry = { kind, sessionId: isKnown ? sessionId : '', principal };
    const merged = this.#merged.get(key) ?? {
      entry,
      n: 0,
      codes: new Map<string, number>(),
      tools: new Map<string, number>(),
    };
    this.#merged.set(key, merged);
    merged.n += 1;
    if (code !== undefined) merged.codes.set(code, (merged.codes.get(code) ?? 0) + 1);
    if (tool !== undefined && (merged.tools.has(tool) || merged.tools.size < TOOLS_MAX))
      merged.tools.set(tool, (merged.tools.get(tool) ?? 0) + 1);
    this.#timer ??= this.#powers.after(MERGE_EVERY_MS, () => this.flush());
    return false;
  }

  #bucket(key: string, perMinute: number): Bucket {
    const nowMs = this.#powers.monotonicMs();
    let bucket = this.#buckets.get(key);
    if (!bucket) {
      this.#sweep(nowMs);
      bucket = { left: perMinute, atMs: nowMs };
      this.#buckets.set(key, bucket);
    }
    bucket.left = Math.min(perMinute, bucket.left + ((nowMs - bucket.atMs) * perMinute) / MINUTE_MS);
    bucket.atMs = nowMs;
    return bucket;
  }

  /**
   * Removes buckets that are full again after a minute. If too many remain, the oldest go first; a principal's own bucket stays, since
   * every entry uses it.
   */
  #sweep(nowMs: number): void {
    if (this.#buckets.size < BUCKETS_MAX) return;
    for (const [key, { atMs }] of this.#buckets) if (nowMs - atMs >= MINUTE_MS) this.#buckets.delete(key);
    if (this.#buckets.size < BUCKETS_MAX) return;
    const sorted = [...this.#buckets].sort(([, a], [, b]) => a.atMs - b.atMs);
    for (const [key] of sorted.slice(0, BUCKETS_MAX >> 1)) this.#buckets.delete(key);
  }
}
