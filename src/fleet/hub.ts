/** The hub: collects the audit logs of all nodes, and answers what it knows of them. It decides nothing. */
import { existsSync, readFileSync, statSync } from 'node:fs';
import type { Limits } from '../base/limits.ts';
import type { Powers } from '../base/powers.ts';
import { type CollectedLog, Collector } from './collector.ts';
import { type Credential, readCredential } from './credential.ts';
import { FleetError } from './fleet-error.ts';
import { fleetFiles, readRosterFile } from './folder.ts';
import type { BusMessage, FleetLink } from './link.ts';
import { connectMember, isSignedBy } from './nats.ts';
import { keyOf, type Roster } from './roster.ts';
import { started } from './started.ts';
import { publisherOf, subjects } from './subjects.ts';
import { fromWire, toWire } from './wire.ts';

/** Silence after which the log of a node is told as late. */
export const AUDIT_LATE_MS = 30_000;

/** What the hub answers to the operator. */
export interface HubStatus {
  readonly logs: readonly (CollectedLog & { readonly isLate: boolean })[];
}

export class Hub implements AsyncDisposable {
  readonly #parts = new AsyncDisposableStack();
  readonly #folder: string;
  readonly #credential: Credential;
  readonly #limits: Limits;
  readonly #powers: Powers;
  readonly #collector: Collector;
  readonly #nodesWithLeases = new Set<string>();
  #roster: { readonly roster: Roster; readonly signed: unknown; readonly changedMs: number };

  /** Starts the hub of a folder. Throws FleetError. */
  static async start(folder: string, limits: Limits, powers: Powers): Promise<Hub> {
    return started(new Hub(folder, limits, powers), (it) => it.#connect());
  }

  private constructor(folder: string, limits: Limits, powers: Powers) {
    this.#folder = folder;
    this.#limits = limits;
    this.#powers = powers;
    this.#credential = readCredential(fleetFiles(folder).hubCredential);
    this.#roster = this.#readRoster();
    this.#collector = this.#parts.use(
      new Collector(fleetFiles(folder).audit, {
        fleet: this.#credential.fleet,
        limits,
        now: () => powers.now(),
        keyOf: (node) => keyOf(this.#rosterNow(), 'node', node),
        isSignedBy,
      }),
    );
  }

  async #connect(): Promise<void> {
    const parts = { limits: this.#limits, powers: this.#powers };
    const link = this.#parts.use(await connectMember(this.#credential, parts));
    await this.#makeLeases(link);
    this.#listen(link);
  }

  #listen(link: FleetLink): void {
    this.#parts.use(link.subscribe(subjects.audit('*'), (message) => void this.#takeBatch(message)));
    this.#parts.use(link.subscribe(subjects.roster, (message) => void this.#giveRoster(link, message)));
    this.#parts.use(link.subscribe(subjects.policy, (message) => message.respond(this.#policyBundle())));
    this.#parts.use(link.subscribe(subjects.hubStatus, (message) => message.respond(toWire(this.#status()))));
  }

  /** Hands out the bundle as it is; nodes check it. Empty if there is none. */
  #policyBundle(): Uint8Array {
    const path = fleetFiles(this.#folder).hubPolicy;
    return existsSync(path) ? readFileSync(path) : Buffer.alloc(0);
  }

  /** Gives out the roster as it is signed. A node that was added asks for it before it takes leases. */
  async #giveRoster(link: FleetLink, message: BusMessage): Promise<void> {
    try {
      await this.#makeLeases(link);
    } catch (error) {
      this.#powers.log.error({ reason: (error as Error).message }, 'a store of leases could not be made');
    }
    message.respond(toWire(this.#roster.signed));
  }

  /** Makes the stores for the leases of nodes that have none. */
  async #makeLeases(link: FleetLink): Promise<void> {
    const nodes = this.#rosterNow().members.filter((it) => it.role === 'node' && !this.#nodesWithLeases.has(it.name));
    for (const { name } of nodes) {
      await link.leases.make(name);
      this.#nodesWithLeases.add(name);
    }
  }

  async #takeBatch(message: BusMessage): Promise<void> {
    const node = publisherOf(message.subject);
    try {
      const receipt = await this.#collector.take(node, fromWire(message.data));
      if (receipt) message.respond(toWire(receipt));
      else this.#powers.log.warn({ node }, 'entries of a log came that the node has not signed');
      if (receipt?.broken !== undefined) this.#powers.log.error({ node, reason: receipt.broken }, 'a log is broken');
    } catch (error) {
      this.#powers.log.error({ node, error }, 'entries of a log could not be stored');
    }
  }

  #status(): HubStatus {
    const now = this.#powers.now();
    return { logs: this.#collector.logs.map((it) => ({ ...it, isLate: now - it.heardMs > AUDIT_LATE_MS })) };
  }

  /** The roster, read again when its file was replaced. A roster that is not the operator's, or older, changes nothing. */
  #rosterNow(): Roster {
    try {
      if (this.#changedMs() !== this.#roster.changedMs) {
        const read = this.#readRoster();
        this.#roster =
          read.roster.version >= this.#roster.roster.version ? read : { ...this.#roster, changedMs: read.changedMs };
      }
    } catch (error) {
      if (!(error instanceof FleetError)) throw error;
      this.#powers.log.warn({ reason: error.message }, 'the roster can not be read; the one before stays in force');
    }
    return this.#roster.roster;
  }

  #readRoster() {
    const changedMs = this.#changedMs();
    const { operatorKey } = this.#credential;
    return { ...readRosterFile(fleetFiles(this.#folder).hubRoster, operatorKey, this.#limits), changedMs };
  }

  #changedMs = (): number => statSync(fleetFiles(this.#folder).hubRoster, { throwIfNoEntry: false })?.mtimeMs ?? 0;

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#parts[Symbol.asyncDispose]();
  }
}
