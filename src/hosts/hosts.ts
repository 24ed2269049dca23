/**
 * Manages the tier hosts: starts them on demand, warms them, reaps idle ones, replaces dead ones, and keeps their
 * number within `hostsMax`.
 */
import type { HostStatus } from '../call.ts';
import { ToolError } from '../errors.ts';
import type { Limits } from '../limits.ts';
import type { NetworkLayer } from '../policy/network.ts';
import type { Powers } from '../powers.ts';
import { COMMAND_ENVIRONMENT } from '../sandbox/launcher.ts';
import type { Masks } from '../sandbox/masks.ts';
import type { Sandbox } from '../sandbox/sandbox.ts';
import type { Egress } from './egress.ts';
import { Host, type JobEnd, type JobRequest } from './host.ts';
import { type CoarseIn, type HostKey, HostMasks } from './host-masks.ts';
import type { HostSetup, Identity } from './job.ts';
import { endSession, endStale, keptMax, type Retaining } from './retained-sessions.ts';
import type { Leased, Ran, RunOptions, RunRequest } from './runs.ts';
import { shapeOf } from './shape.ts';
import { crashed, end, unlessAborted } from './shutdown.ts';
import { UsageLooks } from './usage-looks.ts';
import type { TreeState } from './workspace-index.ts';

export type { CoarseIn, HostKey } from './host-masks.ts';
export type { PathView } from './job.ts';

export interface HostsOptions {
  readonly sandbox: Sandbox;
  /** Node and its arguments for the host process. */
  readonly program: readonly string[];
  /** Absent if no command may connect anywhere. */
  readonly egress?: Egress;
  readonly limits: Limits;
  /** The author of commits. */
  readonly identity?: Identity;
  /** Environment variables of each command, PATH among them; the caller's come after. */
  readonly environment?: Readonly<Record<string, string>>;
}

interface Slot extends Retaining {
  readonly place: HostKey;
  host?: Host;
  /** The print of the masks and the root of the workspace that `host` was started with. */
  print: string;
  root: string;
  /** State of the tree at which these masks were last found valid. */
  state?: TreeState | undefined;
  startedAt: number;
  /** Resolves with the host that is being started. */
  starting?: Promise<Host>;
  restarts: number;
  /** Calls that use the slot's host or are about to. */
  runs: number;
  /** Tail of the queue of calls that run again alone, after their host died. */
  alone: Promise<unknown>;
}

const NEVER = new AbortController().signal;
const REAP_EVERY_MS = 10_000;

export class Hosts implements AsyncDisposable {
  readonly #slots = new Map<string, Slot>();
  /** Hosts that take no new jobs: they are for one call only, or have outdated masks. */
  readonly #leaving = new Set<Host>();
  readonly #usage: UsageLooks;
  readonly #masks: HostMasks;
  readonly #options: HostsOptions;
  readonly #powers: Powers;
  #closed = false;

  constructor(options: HostsOptions, powers: Powers) {
    this.#options = options;
    this.#powers = powers;
    this.#masks = new HostMasks(options.limits, powers);
    this.#usage = new UsageLooks(powers);
    this.#reapLater();
  }

  /** Begins the walk of a workspace, so that its first host need not wait for it. */
  prepare = (workspace: string): void => this.#masks.prepare(workspace);

  /** Starts hosts one after another, so that the first call's host does not share the processors; a call reports its host's failure. */
  async warm(places: readonly { place: HostKey; network: readonly NetworkLayer[] | undefined }[]): Promise<void> {
    for (const { network, place } of places) {
      const start = async (of: HostKey) => ({ ready: await (await this.#hostOf(this.#slot(of))).ready });
      const lend =
        network && this.#options.egress?.lend(network, NEVER, ({ line }) => start({ ...place, egress: line }));
      await (lend ?? start(place)).catch((error: unknown) => {
        if (!this.#closed) this.#powers.log.warn({ tier: place.tier, error }, 'tier host not warmed');
      });
    }
  }

  /**
   * Runs a job in the host of its place, under the place's path rules; a command gets the masks of the workspace as
   * it is now. Throws SANDBOX_UNAVAILABLE if no host can be had, or no masks for a command; HOST_CRASHED if the host
   * died during the job. A read_only job is first retried alone, so that a call that kills hosts is found and calls
   * beside it never notice. Throws the signal's reason if an abort comes before the job starts.
   */
  async run(place: HostKey, request: RunRequest, options: RunOptions): Promise<Ran> {
    const { network, ...job } = request;
    const { egress } = this.#options;
    if (!network || !egress) return this.#run(place, job, options);
    return egress.lend(network, options.signal, ({ line, token }) =>
      this.#run({ ...place, egress: line }, { ...job, egressToken: token }, options),
    );
  }

  async #run(place: HostKey, request: Leased, options: RunOptions): Promise<Ran> {
    const slot = this.#slot(place);
    slot.runs += 1;
    try {
      return await (place.tier === 'execute' ? this.#runCommand : this.#runTool).call(this, slot, request, options);
    } finally {
      slot.runs -= 1;
    }
  }

  coarseMasks = (): CoarseIn[] => this.#masks.coarse();

  async status(): Promise<HostStatus[]> {
    const live = [...this.#slots.values()].flatMap((slot) => (slot.host?.alive ? [{ slot, host: slot.host }] : []));
    const usage = await this.#usage.of(live.map(({ host }) => host.pid));
    return live.map(({ slot, host }) => ({
      tier: slot.place.tier,
      workspace: slot.place.workspace,
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
    const starting = [...this.#slots.values()].flatMap((slot) => slot.starting ?? []);
    await Promise.all([this.#masks[Symbol.asyncDispose](), Promise.allSettled(starting)]);
    const hosts = [...this.#leaving, ...[...this.#slots.values()].flatMap(({ host }) => host ?? [])];
    await Promise.all(hosts.map(end));
  }

  #slot(place: HostKey): Slot {
    const { tier, workspace, view, keeps, egress, heapMb } = place;
    const key = [tier, workspace, view.key, keeps ? 'keeps' : '', egress?.id ?? '', heapMb].join('\0');
    const known = this.#slots.get(key);
    if (known) return known;
    const slot: Slot = {
      ...{ place, print: '', root: '', startedAt: -Infinity, restarts: 0, runs: 0, retained: new Map() },
      alone: Promise.resolve(),
    };
    this.#slots.set(key, slot);
    return slot;
  }

  /** Ends everything that hosts keep for a session that is over. */
  endSession(session: string): void {
    endSession(this.#slots.values(), session);
  }

  /** Ends everything that hosts keep for sessions whose policy changed. */
  endStale(): void {
    endStale(this.#slots.values());
  }

  async #runTool(
    slot: Slot,
    { lifted: _, keeper: __, unixSockets: ___, ...request }: Leased,
    options: RunOptions,
  ): Promise<Ran> {
    const { end, pid } = await this.#runIn(slot, request, options);
    if ('result' in end) return { result: end.result, pid };
    if (slot.place.tier !== 'read_only' || options.signal.aborted || this.#closed) throw crashed(pid);
    return this.#runAlone(slot, request, options);
  }

  async #runCommand(slot: Slot, leased: Leased, options: RunOptions): Promise<Ran> {
    const { lifted = [], keeper, unixSockets = 'none', ...request } = leased;
    if (!this.#atHand(slot)) await unlessAborted(this.#readyHost(slot), options.signal);
    // The masks come last, to be as new as possible for the command.
    const masks = await unlessAborted(this.#masks.ofCommand(slot.place, lifted), options.signal);
    const sockets = unixSockets === 'own' ? this.#masks.socketsOf(slot.place) : undefined;
    if (keeper && !slot.retained.has(keeper.session)) slot.retained.set(keeper.session, keeper);
    const kept = keeper && {
      keeper: { session: keeper.session, keptMax: keptMax(this.#slots.values(), slot, this.#options.limits) },
    };
    const { end, pid } = await this.#runIn(slot, { ...request, masks, ...(sockets && { sockets }), ...kept }, options);
    const given = { unixSockets: sockets ? 'own' : 'none', coarse: masks.coarse } as const;
    if ('result' in end) return { result: end.result, pid, ...given };
    throw crashed(pid);
  }

  async #runIn(slot: Slot, request: JobRequest, options: RunOptions): Promise<{ end: JobEnd; pid: number }> {
    options.signal.throwIfAborted();
    let host = this.#atHand(slot) ?? (await unlessAborted(this.#readyHost(slot), options.signal));
    // An idle host may have been ended meanwhile, to make room or for its masks; nothing has begun yet.
    if (!host.alive) host = await unlessAborted(this.#readyHost(slot), options.signal);
    const { pid } = host;
    if (options.beforeStart) {
      await options.beforeStart();
      // Not retried on another host: `beforeStart` checked this moment, and an approval is used up.
      if (!host.alive) throw crashed(pid);
    }
    // `run` sends the job synchronously.
    const running = host.run(request, options);
    options.onStarted?.();
    const end = await running;
    if (host.jobs === 0 && this.#leaving.has(host)) host.kill();
    return { end, pid };
  }

  /** The slot's host, if it can be used without any lookup or wait. */
  #atHand(slot: Slot): Host | undefined {
    const { host, starting } = slot;
    if (this.#closed || starting || !host?.takesJobs || host.worn) return undefined;
    return this.#masks.isAsOf(slot.place, slot) ? host : undefined;
  }

  /** A host that takes jobs. If a host died while it started, nothing has begun, so another one is tried once. */
  async #readyHost(slot: Slot): Promise<Host> {
    try {
      const first = await this.#hostOf(slot);
      await first.ready;
      return first;
    } catch (error) {
      if (error instanceof ToolError && error.code !== 'SANDBOX_UNAVAILABLE') throw error;
      // A failure of the second host is reported.
      const second = await this.#hostOf(slot);
      await second.ready;
      return second;
    }
  }

  async #hostOf(slot: Slot): Promise<Host> {
    if (slot.starting) return slot.starting;
    slot.starting = this.#current(slot).finally(() => {
      delete slot.starting;
    });
    return slot.starting;
  }

  /** The slot's host, or a new one if that is dead, or has another workspace directory or other masks than it would get now. */
  async #current(slot: Slot): Promise<Host> {
    if (this.#closed) throw new ToolError('SHUTTING_DOWN', 'the daemon is shutting down');
    const { masks, print, root, state } = await this.#masks.of(slot.place);
    if (this.#closed) throw new ToolError('SHUTTING_DOWN', 'the daemon is shutting down');
    const { host } = slot;
    const isYoung = this.#powers.monotonicMs() - slot.startedAt < this.#options.limits.hostMasksMs;
    if (slot.print === print) slot.state = state;
    const isThere = slot.root === root && (isYoung || slot.print === print);
    if (host?.alive && !host.worn && isThere) return host;
    if (host?.alive) this.#drop(slot);
    else if (host) slot.restarts += 1;
    this.#makeRoom();
    slot.host = this.#start(slot.place, masks);
    Object.assign(slot, { print, root, state });
    slot.startedAt = this.#powers.monotonicMs();
    return slot.host;
  }

  /** Gives the host no more jobs, and ends it when it has none. */
  #leave(host: Host): void {
    this.#leaving.add(host);
    void host.gone.then(() => this.#leaving.delete(host));
    if (host.jobs === 0) void end(host);
  }

  #start(place: HostKey, masks: Masks): Host {
    const { tier, workspace, egress } = place;
    const { sandbox, program, limits } = this.#options;
    const host = new Host({
      ...{ tier, workspace, program, limits, powers: this.#powers },
      ...(egress && { egress: egress.stream }),
      sandbox: { ...sandbox, startHost: (...args) => sandbox.startHost(args[0], args[1], args[2], args[3], masks) },
      setup: this.#setup(place),
    });
    const startedAt = this.#powers.monotonicMs();
    host.ready.then(
      () =>
        this.#powers.log.info(
          { tier, workspace, pid: host.pid, ms: Math.round(this.#powers.monotonicMs() - startedAt) },
          'tier host ready',
        ),
      () => {},
    );
    return host;
  }

  #setup({ tier, workspace, view, keeps, heapMb = Infinity }: HostKey): HostSetup {
    const { sandbox, identity, limits: given } = this.#options;
    const limits = { ...given, threadHeapMb: Math.min(given.threadHeapMb, heapMb) };
    const common = { tier, view, limits, ...(tier !== 'external_api' && { workspace }) };
    const lanes = tier === 'read_only' ? { lanes: limits.hostThreadsMax } : {};
    if (tier !== 'execute') return { ...common, ...shapeOf(tier, limits), ...lanes };
    return {
      ...common,
      command: {
        ...sandbox.commandSandbox(workspace),
        environment: { ...COMMAND_ENVIRONMENT, ...this.#options.environment },
      },
      ...(identity && { identity }),
      ...{ watches: !keeps, ...shapeOf(tier, limits) },
    };
  }

  /** Ends the longest idle host that no call waits for, so that many workspaces and policies can't fill the machine. */
  #makeRoom(): void {
    const live = [...this.#slots.values()].filter(({ host }) => host?.alive);
    if (live.length + this.#leaving.size < this.#options.limits.hostsMax) return;
    const idle = live.filter(({ host, runs }) => runs === 0 && host?.jobs === 0 && host.kept === 0);
    const idlest = idle.sort((a, b) => (a.host?.idleSince ?? 0) - (b.host?.idleSince ?? 0))[0];
    if (!idlest)
      throw new ToolError('QUEUE_FULL', `all ${live.length} tier hosts are busy`, { details: { retryAfterMs: 1000 } });
    this.#drop(idlest);
  }

  #drop(slot: Slot): void {
    if (slot.host) this.#leave(slot.host);
    delete slot.host;
  }

  #reapLater(): void {
    this.#powers.after(REAP_EVERY_MS, () => {
      if (this.#closed) return;
      const { hostIdleMs } = this.#options.limits;
      const nowMs = this.#powers.monotonicMs();
      for (const [key, slot] of this.#slots) {
        const { host } = slot;
        const isUseless = slot.place.egress?.stream.destroyed;
        if (slot.runs > 0 || slot.starting || (host?.kept ?? 0) > 0) continue;
        if (host?.alive && nowMs - host.idleSince < hostIdleMs && !isUseless) continue;
        this.#drop(slot);
        this.#slots.delete(key);
      }
      this.#masks.reap(new Set([...this.#slots.values()].map(({ place }) => place.workspace)));
      this.#reapLater();
    });
  }

  /** Runs calls whose host died, one at a time, each on a host of its own. */
  async #runAlone(slot: Slot, request: JobRequest, options: RunOptions): Promise<Ran> {
    const before = slot.alone;
    const { promise, resolve } = Promise.withResolvers<void>();
    slot.alone = promise;
    try {
      await before;
      const { masks } = await this.#masks.of(slot.place);
      return await this.#runApart(slot, masks, request, options);
    } finally {
      resolve();
    }
  }

  /** Runs a job on a host for this call only. */
  async #runApart(slot: Slot, masks: Masks, request: JobRequest, options: RunOptions): Promise<Ran> {
    if (this.#closed) throw new ToolError('SHUTTING_DOWN', 'the daemon is shutting down');
    const host = this.#start(slot.place, masks);
    this.#leaving.add(host);
    void host.gone.then(() => this.#leaving.delete(host));
    try {
      await host.ready;
      const pid = host.pid;
      const end: JobEnd = await host.run(request, options);
      if ('crashed' in end) throw crashed(pid);
      return { result: end.result, pid };
    } finally {
      void end(host);
    }
  }
}
