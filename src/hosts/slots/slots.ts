/**
 * Chooses the host of a call: starts one where there is none, replaces those that are dead, worn or have outdated masks,
 * ends idle ones, and keeps their number within `hostsMax`.
 */
import type { HostStatus } from '../../base/call.ts';
import { ToolError } from '../../base/errors.ts';
import type { Limits } from '../../base/limits.ts';
import type { Powers } from '../../base/powers.ts';
import type { Masks } from '../../sandbox/masks.ts';
import type { Host } from '../host.ts';
import type { HeldMasks, HostKey, HostMasks } from '../host-masks.ts';
import { endSession, endStale, keptMax, type RetainedSession, type Retaining } from '../retained-sessions.ts';
import { end } from '../shutdown.ts';
import type { TreeState } from '../workspace-index.ts';
import { StartTurns, type WantedStart } from './start-turns.ts';
import { UsageLooks } from './usage-looks.ts';

/** The part of a host that a slot uses. */
export type SlotHost = Pick<
  Host,
  | ('alive' | 'takesJobs' | 'worn' | 'ready' | 'gone' | 'kill' | 'endSession' | 'reapThreads' | 'answers')
  | ('pid' | 'jobs' | 'threads' | 'kept' | 'idleSince')
>;

/** The calls of one key, and the host that runs them. */
export interface Slot<H extends SlotHost = Host> extends Retaining {
  readonly key: HostKey;
  host?: H;
  /** The fingerprint of the masks and the root of the workspace that `host` was started with. */
  fingerprint: string;
  root: string;
  /** State of the tree at which these masks were last found valid. */
  state?: TreeState | undefined;
  startedAt: number;
  /** Resolves with the host that is being started. */
  starting?: Promise<H>;
  /** The start that was asked for last. */
  wanted: WantedStart;
  restarts: number;
  /** Calls that use the slot's host or are about to. */
  runs: number;
  /** Tail of the queue of calls that run again alone, after their host died. */
  alone: Promise<unknown>;
}

export interface SlotsOptions<H extends SlotHost = Host> {
  /** Starts a host. Throws SANDBOX_UNAVAILABLE. */
  start(key: HostKey, masks: Masks): H;
  readonly masks: Pick<HostMasks, 'of' | 'isAsOf' | 'reap' | 'settle'>;
  readonly limits: Limits;
}

const REAP_EVERY_MS = 10_000;
/** Milliseconds after which a start that failed is tried again, while somebody asks whether hosts can be started. */
const RETRY_MS = 5_000;

export class Slots<H extends SlotHost = Host> implements AsyncDisposable {
  readonly #slots = new Map<string, Slot<H>>();
  /** Hosts that take no new jobs: they are for one call only, or were replaced. */
  readonly #leaving = new Set<H>();
  readonly #turns = new StartTurns();
  readonly #usage: UsageLooks;
  readonly #options: SlotsOptions<H>;
  readonly #powers: Powers;
  /** The last start, if it failed. */
  #failed: { readonly slot: Slot<H>; atMs: number } | undefined;
  #closed = false;

  constructor(options: SlotsOptions<H>, powers: Powers) {
    this.#options = options;
    this.#powers = powers;
    this.#usage = new UsageLooks(powers);
    this.#reapLater();
  }

  get closed(): boolean {
    return this.#closed;
  }

  /** The slot of a key, which is made if there is none. */
  of(key: HostKey): Slot<H> {
    const { tier, workspace, view, keeps, egress, heapMb } = key;
    const name = [tier, workspace, view.key, keeps ? 'keeps' : '', egress?.id ?? '', heapMb].join('\0');
    const known = this.#slots.get(name);
    const { principal = '' } = key;
    if (known) {
      if (!known.starting) known.wanted = { principal, isUrgent: false };
      return known;
    }
    const slot: Slot<H> = {
      key,
      wanted: { principal, isUrgent: false },
      fingerprint: '',
      root: '',
      startedAt: -Infinity,
      restarts: 0,
      runs: 0,
      retained: new Map(),
      alone: Promise.resolve(),
    };
    this.#slots.set(name, slot);
    return slot;
  }

  /** The slot of a workspace and its rules whose host keeps something, also for this session; the oldest of several. */
  keeping({ tier, workspace, view }: HostKey, { session }: RetainedSession): Slot<H> | undefined {
    return [...this.#slots.values()].find(
      ({ key, host, retained }) =>
        key.keeps &&
        (host?.kept ?? 0) > 0 &&
        retained.has(session) &&
        [key.tier, key.workspace, key.view.key].join('\0') === [tier, workspace, view.key].join('\0'),
    );
  }

  /** The slot's host, if it can be used without any lookup or wait. */
  atHand(slot: Slot<H>): H | undefined {
    const { host, starting } = slot;
    if (this.#closed || starting || !host?.takesJobs || host.worn) return undefined;
    return this.#options.masks.isAsOf(slot.key, slot) ? host : undefined;
  }

  /**
   * Makes sure that the slot's host masks the workspace as it is now, for jobs in which programs read files that no
   * tool checks. Throws SANDBOX_UNAVAILABLE.
   */
  async seal(slot: Slot<H>): Promise<void> {
    await this.#options.masks.settle(slot.key);
    await slot.starting;
    slot.startedAt = -Infinity;
    await this.begin(slot);
  }

  /** A host that takes jobs. If a host died while it started, nothing has begun, so another one is tried once. */
  async ready(slot: Slot<H>): Promise<H> {
    try {
      return await this.start(slot);
    } catch (error) {
      if (error instanceof ToolError && error.code !== 'SANDBOX_UNAVAILABLE') throw error;
      // A failure of the second host is reported.
      return this.start(slot);
    }
  }

  /**
   * The slot's host, which is started if needed, once it takes jobs. One that no call waits for (`isUrgent`) takes the place of no other
   * host. Throws SANDBOX_UNAVAILABLE, NOT_FOUND, QUEUE_FULL.
   */
  async start(slot: Slot<H>, isUrgent = true): Promise<H> {
    try {
      const host = await this.begin(slot, isUrgent);
      await host.ready;
      this.#failed = undefined;
      return host;
    } catch (error) {
      if (error instanceof ToolError && error.code === 'SANDBOX_UNAVAILABLE')
        this.#failed = { slot, atMs: this.#powers.monotonicMs() };
      throw error;
    }
  }

  /**
   * False if the last start failed and no host is there: one workspace whose host can't be started says nothing of the
   * others. Tries again after a while, since nobody else may.
   */
  get canStart(): boolean {
    const failed = this.#failed;
    if (!failed || [...this.#slots.values()].some(({ host }) => host?.takesJobs)) return true;
    const nowMs = this.#powers.monotonicMs();
    if (nowMs - failed.atMs >= RETRY_MS) {
      failed.atMs = nowMs;
      void this.start(failed.slot).catch(() => {}); // The next answer says so.
    }
    return false;
  }

  /** The slot's host, which may not take jobs yet. Throws SANDBOX_UNAVAILABLE, NOT_FOUND, QUEUE_FULL. */
  begin(slot: Slot<H>, isUrgent = true): Promise<H> {
    if (isUrgent) slot.wanted.isUrgent = true;
    slot.starting ??= this.#current(slot).finally(() => {
      delete slot.starting;
    });
    return slot.starting;
  }

  /** Starts a host for one call only; the caller ends it. */
  async startApart({ key }: Slot<H>): Promise<H> {
    const leave = await this.#turns.take({ principal: key.principal ?? '', isUrgent: true });
    try {
      const { masks } = await this.#options.masks.of(key);
      this.#assertOpen();
      const host = this.#options.start(key, masks);
      this.#leaving.add(host);
      void host.gone.then(() => this.#leaving.delete(host));
      host.ready.then(leave, leave);
      return host;
    } catch (error) {
      leave();
      throw error;
    }
  }

  /** Ends a host that was replaced, after its last job. */
  release(host: H): void {
    if (host.jobs === 0 && this.#leaving.has(host)) host.kill();
  }

  /** How many things the slot's host may keep. */
  keptMax(slot: Slot<H>): number {
    return keptMax(this.#slots.values(), slot, this.#options.limits);
  }

  /** Ends everything that hosts keep for a session that is over. */
  endSession(session: string): void {
    endSession(this.#slots.values(), session);
  }

  /** Ends everything that hosts keep for sessions whose policy changed. */
  endStale(): void {
    endStale(this.#slots.values());
  }

  /** Resolves when one of the hosts answers, or at once if none takes jobs. */
  async answers(): Promise<void> {
    const hosts = [...this.#slots.values()].flatMap(({ host }) => (host?.takesJobs ? [host] : []));
    if (hosts.length > 0) await Promise.any(hosts.map((it) => it.answers()));
  }

  async status(): Promise<HostStatus[]> {
    const live = [...this.#slots.values()].flatMap((slot) => (slot.host?.alive ? [{ slot, host: slot.host }] : []));
    const usage = await this.#usage.of(live.map(({ host }) => host.pid));
    return live.map(({ slot, host }) => ({
      tier: slot.key.tier,
      workspace: slot.key.workspace,
      pid: host.pid,
      threads: host.threads,
      busy: Math.min(host.jobs, host.threads),
      rssBytes: usage[host.pid]?.memory ?? 0,
      cpuMs: Math.round(usage[host.pid]?.ctime ?? 0),
      restarts: slot.restarts,
    }));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    this.#turns.close();
    const starting = [...this.#slots.values()].flatMap((slot) => slot.starting ?? []);
    await Promise.allSettled(starting);
    const hosts = [...this.#leaving, ...[...this.#slots.values()].flatMap(({ host }) => host ?? [])];
    await Promise.all(hosts.map(end));
  }

  #assertOpen(): void {
    if (this.#closed) throw new ToolError('SHUTTING_DOWN', 'the daemon is shutting down');
  }

  /** The slot's host, or a new one if that is dead, or has another workspace directory or other masks than it would get now. */
  async #current(slot: Slot<H>): Promise<H> {
    const usable = this.#usable(slot, await this.#masksOf(slot));
    if (usable) return usable;
    const leave = await this.#turns.take(slot.wanted);
    try {
      const held = await this.#masksOf(slot);
      const host = this.#usable(slot, held) ?? this.#replace(slot, held);
      host.ready.then(leave, leave);
      return host;
    } catch (error) {
      leave();
      throw error;
    }
  }

  async #masksOf({ key }: Slot<H>): Promise<HeldMasks> {
    this.#assertOpen();
    const held = await this.#options.masks.of(key);
    this.#assertOpen();
    return held;
  }

  #usable(slot: Slot<H>, { fingerprint, root, state }: HeldMasks): H | undefined {
    const { host } = slot;
    const isYoung = this.#powers.monotonicMs() - slot.startedAt < this.#options.limits.hostMasksMs;
    if (slot.fingerprint === fingerprint) slot.state = state;
    const isThere = slot.root === root && (isYoung || slot.fingerprint === fingerprint);
    return host?.alive && !host.worn && isThere ? host : undefined;
  }

  #replace(slot: Slot<H>, { masks, fingerprint, root, state }: HeldMasks): H {
    const { host } = slot;
    if (host?.alive) this.#drop(slot);
    else if (host) slot.restarts += 1;
    this.#makeRoom(slot.wanted);
    slot.host = this.#options.start(slot.key, masks);
    Object.assign(slot, { fingerprint, root, state });
    slot.startedAt = this.#powers.monotonicMs();
    return slot.host;
  }

  /** Ends the longest idle host that no call waits for, so that many workspaces and policies can't fill the machine. */
  #makeRoom({ isUrgent }: WantedStart): void {
    const live = [...this.#slots.values()].filter(({ host }) => host?.alive);
    if (live.length + this.#leaving.size < this.#options.limits.hostsMax) return;
    const idle = live.filter(({ host, runs }) => runs === 0 && host?.jobs === 0 && host.kept === 0);
    const idlest = idle.sort((a, b) => (a.host?.idleSince ?? 0) - (b.host?.idleSince ?? 0))[0];
    if (!idlest || !isUrgent)
      throw new ToolError(
        'QUEUE_FULL',
        isUrgent ? `all ${live.length} host processes are busy` : 'there is no room to start a host ahead',
        {
          details: { retryAfterMs: 1000 },
        },
      );
    this.#drop(idlest);
  }

  /** Gives the slot's host no more jobs, and ends it when it has none. */
  #drop(slot: Slot<H>): void {
    const { host } = slot;
    delete slot.host;
    if (!host) return;
    this.#leaving.add(host);
    void host.gone.then(() => this.#leaving.delete(host));
    if (host.jobs === 0) void end(host);
  }

  #reapLater(): void {
    this.#powers.after(REAP_EVERY_MS, () => {
      if (this.#closed) return;
      const { hostIdleMs } = this.#options.limits;
      const nowMs = this.#powers.monotonicMs();
      for (const [name, slot] of this.#slots) {
        const { host } = slot;
        host?.reapThreads();
        const isUseless = slot.key.egress?.stream.destroyed;
        if (slot.runs > 0 || slot.starting || (host?.kept ?? 0) > 0) continue;
        if (host?.alive && nowMs - host.idleSince < hostIdleMs && !isUseless) continue;
        this.#drop(slot);
        this.#slots.delete(name);
      }
      this.#options.masks.reap(new Set([...this.#slots.values()].map(({ key }) => key.workspace)));
      this.#reapLater();
    });
  }
}
