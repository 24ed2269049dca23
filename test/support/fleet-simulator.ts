/**
 * A fleet in virtual time: nodes that stop, die and are cut off, a store of leases, gateways and their calls. It runs the
 * placement, presence and fencing of the product, and checks each start against what is true at that moment, which no
 * node of it can see.
 */
import {
  type CallFence,
  confirmed,
  type HeldLease,
  LEASE_MS,
  outcomeOnLoss,
  RENEW_MS,
  whyNotStart,
} from '../../src/base/fencing.ts';
import { type Candidate, place } from '../../src/fleet/placement.ts';
import { HEARTBEAT_MS, LOST_MS, presenceAt } from '../../src/fleet/presence.ts';

export interface SimulatorOptions {
  readonly nodes: number;
  readonly sessions: number;
  readonly forMs: number;
  readonly seed: number;
  /** Calls of each session in a second. */
  readonly callsPerSecond: number;
  /** Failures of each node in a minute: stops, cuts and deaths. */
  readonly failuresPerMinute: number;
  /** Replaces the fencing, to show what it is for. */
  readonly fencing?: typeof whyNotStart;
}

export interface SimulatorReport {
  readonly calls: number;
  readonly started: number;
  readonly done: number;
  readonly none: number;
  readonly unknown: number;
  readonly fenced: number;
  readonly placements: number;
  readonly events: number;
  /** Calls that started more than once. */
  readonly doubled: readonly string[];
  /** Starts on a node that did not own the workspace any more. */
  readonly unowned: readonly string[];
  /** Calls said not to have begun that had. */
  readonly lied: readonly string[];
  /** Time from a node's last heartbeat until its loss was known, the longest. */
  readonly lossKnownMs: number;
  /** Sessions of the busiest node, and of all nodes on average, at the end. */
  readonly busiest: number;
  readonly average: number;
}

/** A pseudo-random generator (mulberry32), so that a seed gives the same run. */
function randomOf(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
}

/** Events by their time, as a binary heap; equal times in the order of their addition. */
class Agenda {
  readonly #heap: { at: number; order: number; run: () => void }[] = [];
  #order = 0;

  add(at: number, run: () => void): void {
    const heap = this.#heap;
    heap.push({ at, order: ++this.#order, run });
    for (let i = heap.length - 1; i > 0; ) {
      const parent = (i - 1) >> 1;
      if (!this.#isBefore(i, parent)) return;
      this.#swap(i, parent);
      i = parent;
    }
  }

  next(): { at: number; run: () => void } | undefined {
    const heap = this.#heap;
    const [first] = heap;
    const last = heap.pop();
    if (!first || heap.length === 0 || !last) return first;
    heap[0] = last;
    for (let i = 0; ; ) {
      const [left, right] = [2 * i + 1, 2 * i + 2];
      let least = i;
      if (left < heap.length && this.#isBefore(left, least)) least = left;
      if (right < heap.length && this.#isBefore(right, least)) least = right;
      if (least === i) return first;
      this.#swap(i, least);
      i = least;
    }
  }

  #isBefore(i: number, j: number): boolean {
    const [a, b] = [this.#heap[i], this.#heap[j]];
    return a !== undefined && b !== undefined && (a.at < b.at || (a.at === b.at && a.order < b.order));
  }

  #swap(i: number, j: number): void {
    const [a, b] = [this.#heap[i], this.#heap[j]];
    if (a && b) [this.#heap[i], this.#heap[j]] = [b, a];
  }
}

interface Node {
  readonly name: string;
  /** Until when the process is stopped; what comes meanwhile waits. */
  stoppedUntil: number;
  /** Until when it reaches neither the store nor a gateway. */
  cutUntil: number;
  /** Counts its starts: what was meant for an earlier process is gone. */
  life: number;
  heardAt: number;
  sessions: number;
  readonly leases: Map<number, HeldLease>;
}

interface Session {
  readonly id: number;
  node: Node | undefined;
  epoch: number;
  /** Counts its placements: answers for an earlier one are stale. */
  placement: number;
  readonly open: Set<Call>;
}

interface Call {
  readonly id: string;
  readonly session: Session;
  starts: number;
  reachedNode: boolean;
  outcome: 'none' | 'unknown' | 'done' | undefined;
}

export class FleetSimulator {
  readonly #options: SimulatorOptions;
  readonly #random: () => number;
  readonly #agenda = new Agenda();
  readonly #nodes: Node[];
  readonly #byName: ReadonlyMap<string, Node>;
  readonly #sessions: Session[];
  /** The truth about ownership; nodes know it only by answers. */
  readonly #store = new Map<number, { node: string; epoch: number; expiresAt: number }>();
  #revision = 0;
  #now = 0;
  #calls = 0;
  #candidates: Candidate[] = [];
  readonly #count = { started: 0, done: 0, none: 0, unknown: 0, fenced: 0, placements: 0, events: 0, lossKnownMs: 0 };
  readonly #doubled: string[] = [];
  readonly #unowned: string[] = [];
  readonly #lied: string[] = [];

  constructor(options: SimulatorOptions) {
    this.#options = options;
    this.#random = randomOf(options.seed);
    this.#nodes = Array.from({ length: options.nodes }, (_, n) => ({
      name: `n${n}`,
      stoppedUntil: 0,
      cutUntil: 0,
      life: 0,
      heardAt: 0,
      sessions: 0,
      leases: new Map(),
    }));
    this.#byName = new Map(this.#nodes.map((it) => [it.name, it]));
    this.#sessions = Array.from({ length: options.sessions }, (_, id) => ({
      id,
      node: undefined,
      epoch: 0,
      placement: 0,
      open: new Set<Call>(),
    }));
  }

  run(): SimulatorReport {
    for (const it of this.#nodes) this.#later(this.#random() * HEARTBEAT_MS, () => this.#beat(it));
    for (const it of this.#nodes) this.#planFailure(it);
    this.#look();
    for (const it of this.#sessions) this.#later(this.#random() * 1_000, () => this.#place(it));
    for (const it of this.#sessions) this.#planCall(it);
    for (let event = this.#agenda.next(); event && event.at <= this.#options.forMs; event = this.#agenda.next()) {
      this.#now = event.at;
      this.#count.events += 1;
      event.run();
    }
    const counts = this.#nodes.map((it) => it.sessions);
    return {
      ...this.#count,
      calls: this.#calls,
      doubled: this.#doubled,
      unowned: this.#unowned,
      lied: this.#lied,
      busiest: Math.max(...counts),
      average: counts.reduce((sum, it) => sum + it, 0) / counts.length,
    };
  }

  #later(delayMs: number, run: () => void): void {
    this.#agenda.add(this.#now + delayMs, run);
  }

  /** Lets a node do something; a stopped one does it when it goes on, a dead one never. */
  #onNode(node: Node, run: () => void): void {
    const { life } = node;
    const attempt = () => {
      if (node.life !== life) return;
      if (node.stoppedUntil > this.#now) this.#agenda.add(node.stoppedUntil, attempt);
      else run();
    };
    attempt();
  }

  /** Time of a message on its way. */
  get #way(): number {
    return 0.2 + this.#random() * (this.#random() < 0.02 ? 400 : 5);
  }

  #isCut = (node: Node): boolean => node.cutUntil > this.#now;

  // Presence

  #beat(node: Node): void {
    this.#onNode(node, () => {
      if (!this.#isCut(node)) this.#later(this.#way, () => (node.heardAt = this.#now));
    });
    this.#later(HEARTBEAT_MS, () => this.#beat(node));
  }

  /** What all gateways know of the nodes; they find out about losses here. */
  #look(): void {
    this.#candidates = this.#nodes.map((it) => ({
      name: it.name,
      labels: [],
      presence: presenceAt(it.heardAt, this.#now),
      hasPolicy: true,
      draining: false,
      paused: false,
      sessions: it.sessions,
      load: 0,
      freeMemory: 1,
    }));
    for (const session of this.#sessions) {
      const { node } = session;
      if (node && presenceAt(node.heardAt, this.#now) === 'lost') this.#lose(session, node);
    }
    this.#later(100, () => this.#look());
  }

  #lose(session: Session, node: Node): void {
    this.#count.lossKnownMs = Math.max(this.#count.lossKnownMs, this.#now - node.heardAt);
    for (const call of session.open) this.#end(call, outcomeOnLoss(call.reachedNode));
    session.node = undefined;
    session.placement += 1;
    node.sessions -= 1;
    this.#place(session);
  }

  #planFailure(node: Node): void {
    const { failuresPerMinute } = this.#options;
    if (failuresPerMinute === 0) return;
    this.#later((-Math.log(1 - this.#random()) * 60_000) / failuresPerMinute, () => {
      const lastsMs = this.#random() * 9_000;
      const kind = this.#random();
      if (kind < 0.4) node.stoppedUntil = this.#now + lastsMs;
      else if (kind < 0.8) node.cutUntil = this.#now + lastsMs;
      else {
        node.life += 1;
        node.leases.clear();
      }
      this.#planFailure(node);
    });
  }

  // Ownership

  #place(session: Session): void {
    const { placement } = session;
    const again = () => this.#later(250, () => session.placement === placement && this.#place(session));
    const placed = place({ key: `s${session.id}`, labels: [] }, this.#candidates, {
      sessionsMax: 1e9,
      freeMemoryMin: 0,
    });
    const node = 'node' in placed ? this.#byName.get(placed.node) : undefined;
    if (!node || this.#isCut(node)) return again();
    this.#later(this.#way, () => this.#onNode(node, () => this.#take(session, node, placement, again)));
  }

  /** A node asks the store for the lease of a session. */
  #take(session: Session, node: Node, placement: number, again: () => void): void {
    const askedAt = this.#now;
    if (this.#isCut(node)) return again();
    this.#later(this.#way, () => {
      const held = this.#store.get(session.id);
      if (held && held.expiresAt > this.#now) return again();
      const epoch = ++this.#revision;
      this.#store.set(session.id, { node: node.name, epoch, expiresAt: this.#now + LEASE_MS });
      if (this.#isCut(node)) return again();
      this.#later(this.#way, () =>
        this.#onNode(node, () => {
          node.leases.set(session.id, { epoch, confirmedAtMs: askedAt });
          this.#later(RENEW_MS, () => this.#renew(session, node, epoch));
          this.#opened(session, { node, epoch, placement });
        }),
      );
    });
  }

  #opened(session: Session, { node, epoch, placement }: { node: Node; epoch: number; placement: number }): void {
    if (session.placement !== placement || session.node) return;
    session.node = node;
    session.epoch = epoch;
    node.sessions += 1;
    this.#count.placements += 1;
  }

  #renew(session: Session, node: Node, epoch: number): void {
    this.#onNode(node, () => {
      if (node.leases.get(session.id)?.epoch !== epoch) return;
      this.#later(RENEW_MS, () => this.#renew(session, node, epoch));
      // Nobody needs the lease of a session that is elsewhere by now.
      if (session.node !== node && session.node !== undefined) return void node.leases.delete(session.id);
      const askedAt = this.#now;
      if (this.#isCut(node)) return;
      this.#later(this.#way, () => this.#renewAtStore(session, node, { epoch, askedAt }));
    });
  }

  #renewAtStore(session: Session, node: Node, { epoch, askedAt }: { epoch: number; askedAt: number }): void {
    const held = this.#store.get(session.id);
    const isHeld = held?.epoch === epoch && held.expiresAt > this.#now;
    if (isHeld) held.expiresAt = this.#now + LEASE_MS;
    if (this.#isCut(node)) return;
    this.#later(this.#way, () =>
      this.#onNode(node, () => {
        const lease = node.leases.get(session.id);
        if (lease?.epoch !== epoch) return;
        if (isHeld) node.leases.set(session.id, confirmed(lease, askedAt));
        else node.leases.delete(session.id);
      }),
    );
  }

  // Calls

  #planCall(session: Session): void {
    this.#later((-Math.log(1 - this.#random()) * 1_000) / this.#options.callsPerSecond, () => {
      if (session.node) this.#send(session, session.node);
      this.#planCall(session);
    });
  }

  #send(session: Session, node: Node): void {
    const call: Call = { id: `c${++this.#calls}`, session, starts: 0, reachedNode: false, outcome: undefined };
    session.open.add(call);
    // The bus is sure that nobody listens at a node that it does not reach.
    if (this.#isCut(node)) return this.#end(call, 'none');
    call.reachedNode = true;
    const { epoch } = session;
    const sentAt = this.#now;
    this.#later(this.#way, () =>
      this.#onNode(node, () => {
        // The queue of the node: mostly short, at times longer than a lease.
        const queuedMs = this.#random() < 0.05 ? this.#random() * 6_000 : this.#random() * 20;
        this.#later(queuedMs, () =>
          this.#onNode(node, () => this.#start(call, node, { epoch, notAfterMs: sentAt + 4 * LOST_MS })),
        );
      }),
    );
  }

  #start(call: Call, node: Node, fence: CallFence): void {
    const { fencing = whyNotStart } = this.#options;
    const { session } = call;
    if (fencing(node.leases.get(session.id), fence, this.#now) !== undefined) {
      this.#count.fenced += 1;
      return this.#answer(call, node, 'none');
    }
    this.#count.started += 1;
    call.starts += 1;
    if (call.starts > 1) this.#doubled.push(call.id);
    if (call.outcome === 'none') this.#lied.push(call.id);
    const owner = this.#store.get(session.id);
    if (owner?.epoch !== fence.epoch || owner.expiresAt <= this.#now) this.#unowned.push(`${call.id} on ${node.name}`);
    this.#later(this.#random() * 50, () => this.#onNode(node, () => this.#answer(call, node, 'done')));
  }

  /** The answer of a node, which is lost if the node is cut off. */
  #answer(call: Call, node: Node, outcome: 'none' | 'done'): void {
    if (this.#isCut(node)) return;
    this.#later(this.#way, () => this.#end(call, outcome));
  }

  #end(call: Call, outcome: 'none' | 'unknown' | 'done'): void {
    if (call.outcome !== undefined) return;
    call.outcome = outcome;
    call.session.open.delete(call);
    this.#count[outcome] += 1;
    if (outcome === 'none' && call.starts > 0) this.#lied.push(call.id);
  }
}
