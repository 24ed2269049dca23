/**
 * How many entries a caller may make without having been let do anything: refusals and sessions cost nothing, and whoever makes
 * enough of them pushes the record of a deed out of the log. Beyond the bound they are counted, and the count is an entry.
 */
import type { Limits } from '../limits.ts';
import type { Powers, Timer } from '../powers.ts';
import type { AuditBudget, AuditLevel } from './audit-budget.ts';
import type { AuditEntry, AuditKind } from './audit-entry.ts';

/** Kinds that are made without an effect. */
const METERED: ReadonlySet<AuditKind> = new Set(['refusal', 'session']);
const MERGE_EVERY_MS = 10_000;
const MINUTE_MS = 60_000;
/** Sessions counted each for itself at a time; the others of a principal are counted together. */
const MERGED_MAX = 64;
/** Buckets looked over for full ones; a full one is as good as none. */
const BUCKETS_MAX = 4096;

interface Bucket {
  left: number;
  atMs: number;
}

interface Merged {
  readonly entry: Pick<AuditEntry, 'kind' | 'sessionId' | 'principal'>;
  n: number;
  /** Closed lists both, so that they stay small. */
  readonly codes: Map<string, number>;
  readonly tools: Map<string, number>;
}

export interface AuditMeterParts {
  readonly limits: Limits;
  readonly powers: Powers;
  readonly budget: AuditBudget;
  /** Takes the entries that stand for several. */
  append(entry: AuditEntry): void;
}

/** Names of tools told of merged calls; a name that is no tool's is the caller's to choose. */
const TOOLS_MAX = 64;

export class AuditMeter implements Disposable {
  readonly #limits: Limits;
  readonly #powers: Powers;
  readonly #budget: AuditBudget;
  readonly #append: (entry: AuditEntry) => void;
  readonly #buckets = new Map<string, Bucket>();
  #merged = new Map<string, Merged>();
  #timer: Timer | undefined;

  constructor({ limits, powers, budget, append }: AuditMeterParts) {
    this.#limits = limits;
    this.#powers = powers;
    this.#budget = budget;
    this.#append = append;
  }

  /** Whether `entry` may stand for itself; else it is counted. `isReading`: its call could change nothing. */
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

  /** Gives out what was counted. */
  flush(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    const all = this.#merged;
    this.#merged = new Map();
    for (const { entry, n, codes, tools } of all.values()) {
      const [code] = [...codes].sort(([, a], [, b]) => b - a)[0] ?? [];
      const ofTools = entry.kind === 'outcome' ? { tools: Object.fromEntries(tools) } : {};
      const detail = { merged: n, codes: Object.fromEntries(codes), ...ofTools };
      this.#append({ ...entry, ...(code !== undefined && { code }), detail });
    }
  }

  [Symbol.dispose](): void {
    this.flush();
  }

  #count({ kind, sessionId, principal, code, tool }: AuditEntry, level: AuditLevel): false {
    const own = `${kind} ${principal} ${sessionId}`;
    // A log that is full takes one entry of a principal at a time, whatever its sessions are.
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

  /** After a minute every bucket is full. The oldest go first when there are still too many: those of a principal stay, being asked each time. */
  #sweep(nowMs: number): void {
    if (this.#buckets.size < BUCKETS_MAX) return;
    for (const [key, { atMs }] of this.#buckets) if (nowMs - atMs >= MINUTE_MS) this.#buckets.delete(key);
    if (this.#buckets.size < BUCKETS_MAX) return;
    const sorted = [...this.#buckets].sort(([, a], [, b]) => a.atMs - b.atMs);
    for (const [key] of sorted.slice(0, BUCKETS_MAX >> 1)) this.#buckets.delete(key);
  }
}
