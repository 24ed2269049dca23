/**
 * Limits how much of the audit log one principal may fill within the period in which nothing may be dropped. Without the limit, calls that
 * need no approval could write hundreds of gigabytes a day.
 */
import { ToolError } from '../../base/errors.ts';
import type { Limits } from '../../base/limits.ts';
import type { Powers } from '../../base/powers.ts';

/**
 * How calls of a principal are recorded. `whole`: every call. `merged`: reads only as counts, other entries shortened. `full`: calls that
 * may change something are refused, so nothing is recorded of them.
 */
export type AuditLevel = 'whole' | 'merged' | 'full';

/** Bytes written by a principal, reduced evenly over the period in which entries must be kept. */
interface WrittenBytes {
  bytes: number;
  atMs: number;
}

/** Most bytes of the two entries of one call, indexes included. */
const CALL_BYTES = 16 * 1024;
/** Bytes of a row in addition to its texts: numbers, hashes and two index entries. */
const ROW_BYTES = 400;
/** Number of written bytes after which the log's size is measured again. */
const LOOK_EVERY_BYTES = 256 * 1024;
const PRINCIPALS_MAX = 1024;

type BudgetLimits = Pick<Limits, 'auditBytesMax' | 'auditOverflowBytesMax' | 'auditPrincipalShare' | 'auditMinAgeMs'>;

export class AuditBudget {
  readonly #limits: BudgetLimits;
  readonly #powers: Powers;
  readonly #measure: () => number;
  readonly #written = new Map<string, WrittenBytes>();
  #logBytes: number;
  /** Bytes written since the last measurement. */
  #sinceBytes = 0;

  /** `measure` returns the size of the log in bytes. */
  constructor(limits: BudgetLimits, powers: Powers, measure: () => number) {
    this.#limits = limits;
    this.#powers = powers;
    this.#measure = measure;
    this.#logBytes = measure();
  }

  charge(principal: string, row: Readonly<Record<string, string | number | null>>): void {
    let bytes = ROW_BYTES;
    for (const it of Object.values(row)) if (typeof it === 'string') bytes += it.length;
    const written = this.#writtenBy(principal);
    written.bytes = this.#bytesOf(written) + bytes;
    written.atMs = this.#powers.monotonicMs();
    this.#sinceBytes += bytes;
    if (this.#sinceBytes >= LOOK_EVERY_BYTES) this.remeasure();
  }

  /** Measures the log again after it was cut or grew. */
  remeasure(): void {
    this.#logBytes = this.#measure();
    this.#sinceBytes = 0;
  }

  levelOf(principal: string): AuditLevel {
    const { auditBytesMax, auditOverflowBytesMax } = this.#limits;
    const bytes = this.#bytesOf(this.#written.get(principal));
    const log = this.#logBytes + this.#sinceBytes;
    if (bytes >= this.#share || log >= auditBytesMax + auditOverflowBytesMax) return 'full';
    return bytes >= this.#share / 2 || log >= auditBytesMax ? 'merged' : 'whole';
  }

  /** Throws RATE_LIMITED if a call that may change something could not be recorded. */
  assertRoom(principal: string): void {
    if (this.levelOf(principal) !== 'full') return;
    const { auditMinAgeMs } = this.#limits;
    const overBytes = this.#bytesOf(this.#written.get(principal)) - this.#share;
    const isOwn = overBytes >= 0;
    const retryAfterMs = isOwn ? Math.ceil((overBytes + CALL_BYTES) / this.#forgivenPerMs) : 60_000;
    const why = isOwn
      ? `${principal} has written ${mib(this.#share)} MiB into the audit log within ${auditMinAgeMs / 3_600_000} h, as much as one principal may`
      : `the audit log has ${mib(this.#logBytes)} MiB, and nothing of it may be dropped yet`;
    throw new ToolError('RATE_LIMITED', `calls that may change something are refused: ${why}`, {
      rule: 'auditBytesMax',
      suggestion:
        'Make fewer calls; calls that only read still run. A person can raise `limits.auditBytesMax` in config.yaml.',
      details: { retryAfterMs },
    });
  }

  get #share(): number {
    return this.#limits.auditBytesMax * this.#limits.auditPrincipalShare;
  }

  get #forgivenPerMs(): number {
    const { auditMinAgeMs } = this.#limits;
    return auditMinAgeMs === 0 ? Number.POSITIVE_INFINITY : this.#share / auditMinAgeMs;
  }

  #writtenBy(principal: string): WrittenBytes {
    const known = this.#written.get(principal);
    if (known) return known;
    // Principals beyond the bound, of which there are more than tokens, share one account.
    const key = this.#written.size >= PRINCIPALS_MAX ? '' : principal;
    const written = this.#written.get(key) ?? { bytes: 0, atMs: this.#powers.monotonicMs() };
    this.#written.set(key, written);
    return written;
  }

  #bytesOf(written: WrittenBytes | undefined): number {
    if (!written) return 0;
    const passedMs = this.#powers.monotonicMs() - written.atMs;
    return passedMs <= 0 ? written.bytes : Math.max(0, written.bytes - passedMs * this.#forgivenPerMs);
  }
}

const mib = (bytes: number): number => Math.round(bytes / 2 ** 20);
