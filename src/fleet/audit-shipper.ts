/** Sends the entries of a node's audit log to the collector, and every few seconds where the log ends. */
import type { Limits } from '../base/limits.ts';
import type { Powers, Timer } from '../base/powers.ts';
import type { AuditRecord } from '../store/audit/entry.ts';
import { toExportLine } from '../store/audit/export.ts';
import { auditReceipt, GENESIS, type LogEnd, signedPosition } from './audit-batch.ts';
import { type FleetLink, Unanswered } from './link.ts';
import type { MemberKeys } from './nats.ts';
import { subjects } from './subjects.ts';
import { type DaemonClient, fromWire, toWire } from './wire.ts';

/** Time between two batches, if there is nothing more to send. */
const SHIP_EVERY_MS = 5_000;
const RECEIPT_MS = 5_000;
const PAGE = 256;

export interface ShipperOptions {
  readonly fleet: string;
  readonly node: string;
  readonly keys: Pick<MemberKeys, 'sign'>;
  readonly link: FleetLink;
  readonly daemon: Pick<DaemonClient, 'request'>;
  readonly limits: Limits;
  readonly powers: Powers;
}

export class AuditShipper implements Disposable {
  readonly #options: ShipperOptions;
  readonly #timer: Timer;
  #isShipping = false;
  #isEnded = false;
  #lastAtMs = 0;

  constructor(options: ShipperOptions) {
    this.#options = options;
    this.#timer = options.powers.every(SHIP_EVERY_MS, () => void this.#ship());
    void this.#ship();
  }

  /** Sends all that the collector has not; errors are logged, and the next time begins from what the collector says. */
  async #ship(): Promise<void> {
    if (this.#isShipping || this.#isEnded || !this.#options.link.isConnected) return;
    this.#isShipping = true;
    try {
      let has = await this.#send([], await this.#end());
      while (has && !this.#isEnded) {
        const { lines, end } = await this.#after(has.seq);
        if (!end) break;
        const next = await this.#send(lines, end);
        // A collector that gets no further must not have the same entries sent for ever.
        has = next && next.seq > has.seq ? next : undefined;
      }
    } catch (error) {
      const { log } = this.#options.powers;
      if (error instanceof Unanswered) log.debug({ reason: error.message }, 'the collector does not answer');
      else log.warn({ reason: (error as Error).message }, 'the audit log could not be sent to the collector');
    } finally {
      this.#isShipping = false;
    }
  }

  /** Sends a batch; gives up to where the collector has the log, undefined if it takes no more of it. */
  async #send(lines: readonly string[], end: LogEnd): Promise<LogEnd | undefined> {
    const { fleet, node, keys, link, powers } = this.#options;
    // Each batch is later than the one before; the collector drops others.
    this.#lastAtMs = Math.max(powers.now(), this.#lastAtMs + 1);
    const atMs = this.#lastAtMs;
    const signature = keys.sign(signedPosition(fleet, node, { end, atMs }));
    const answer = await link.request(subjects.audit(node), toWire({ lines, end, atMs, signature }), RECEIPT_MS);
    const receipt = auditReceipt.safeParse(fromWire(answer));
    if (!receipt.success) throw new Error('the collector answered something else');
    const { has, broken } = receipt.data;
    if (broken !== undefined) powers.log.error({ reason: broken }, 'the collector does not trust this log any more');
    return broken === undefined ? has : undefined;
  }

  async #end(): Promise<LogEnd> {
    const [last] = await this.#query({ order: 'newest', limit: 1 });
    return last ? { seq: last.seq, hash: last.hash } : GENESIS;
  }

  /** The next entries as lines, as many as fit into one batch, and the position of the last one. */
  async #after(seq: number): Promise<{ lines: string[]; end: LogEnd | undefined }> {
    const { fleetAuditBatchBytes } = this.#options.limits;
    const lines: string[] = [];
    let end: LogEnd | undefined;
    let bytes = 0;
    for (const entry of await this.#query({ order: 'oldest', cursor: String(seq), limit: PAGE })) {
      const line = toExportLine('jsonl', entry);
      bytes += Buffer.byteLength(JSON.stringify(line));
      if (end && bytes > fleetAuditBatchBytes) break;
      lines.push(line);
      end = { seq: entry.seq, hash: entry.hash };
    }
    return { lines, end };
  }

  async #query(filter: object): Promise<AuditRecord[]> {
    const page = (await this.#options.daemon.request('audit.query', filter)) as { entries: AuditRecord[] };
    return page.entries;
  }

  [Symbol.dispose](): void {
    this.#isEnded = true;
    this.#timer.cancel();
  }
}
