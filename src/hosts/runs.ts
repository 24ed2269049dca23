/** Runs jobs in the hosts of their slots; runs reads again whose host died. */
import type { EgressReport } from '../egress/messages.ts';
import type { NetworkLayer } from '../policy/network.ts';
import type { UnixSockets } from '../policy/schema/tiers.ts';
import type { CoarseMask } from '../sandbox/coarse-masks.ts';
import type { Egress, EgressLease } from './egress.ts';
import type { RunOptions as HostRunOptions, JobEnd, JobRequest } from './host.ts';
import type { HostKey, HostMasks } from './host-masks.ts';
import type { JobResult } from './job.ts';
import type { RetainedSession } from './retained-sessions.ts';
import { crashed, end, unlessAborted } from './shutdown.ts';
import type { Slot, Slots } from './slots.ts';

/** The result of a job with facts about its run. */
export interface RunResult {
  readonly result: JobResult;
  readonly pid: number;
  /** Directories that were hidden from the command more coarsely than its policy says. */
  readonly coarse?: readonly CoarseMask[] | undefined;
  /** Whether the command could have Unix sockets of its own. */
  readonly unixSockets?: UnixSockets;
  /** The command's connections; `lost` if the proxy died meanwhile, absent if the command had no network. */
  readonly egress?: EgressReport | 'lost';
}

export interface RunRequest extends Omit<JobRequest, 'masks' | 'keeper' | 'egressToken'> {
  /** The session for which the host keeps something between calls. */
  readonly keeper?: RetainedSession;
  /** Whether the command may have Unix sockets of its own. */
  readonly unixSockets?: UnixSockets;
  /** What the command may connect to, as policy layers; absent for nothing. */
  readonly network?: readonly NetworkLayer[];
  /** Access to the egress proxy that the caller holds and gives back, in place of `network`. */
  readonly lease?: EgressLease;
  /** Whether programs in the host read files that no tool checks, so that its masks must be as new as a command's. */
  readonly isSealed?: boolean;
  /** Targets that a person approved for this call: `ask` rules about them do not apply to it. */
  readonly lifted?: readonly string[];
}

/** A request with the proxy's token in place of its network. */
type LeasedRequest = Omit<RunRequest, 'network' | 'lease'> & Pick<JobRequest, 'egressToken'>;

export interface RunOptions extends HostRunOptions {
  /**
   * Called when host and masks are ready; if it throws, no job is sent. The job starts in the same turn, so that it
   * meets the state that the callback checked last.
   */
  readonly beforeStart?: () => Promise<void>;
  /** Called after the job was sent, so that no reaction to it can overtake the job. */
  readonly onStarted?: () => void;
}

export interface RunsOptions {
  readonly slots: Slots;
  readonly masks: HostMasks;
  /** Absent if no command may connect anywhere. */
  readonly egress?: Egress;
}

export class Runs {
  readonly #options: RunsOptions;

  constructor(options: RunsOptions) {
    this.#options = options;
  }

  /**
   * Runs a job in the host of its key, under the key's path rules; a command gets the masks of the workspace as it is
   * now. Throws SANDBOX_UNAVAILABLE if no host can be had, or no masks for a command; HOST_CRASHED if the host died
   * during the job. A read_only job is first retried alone, so that a call that kills hosts is found and calls beside
   * it never notice. Throws the signal's reason if an abort comes before the job starts.
   */
  async run(key: HostKey, request: RunRequest, options: RunOptions): Promise<RunResult> {
    const { network, lease, ...job } = request;
    const { egress } = this.#options;
    if (lease) return this.#run({ ...key, egress: lease.line }, { ...job, egressToken: lease.token }, options);
    if (!network || !egress) return this.#run(key, job, options);
    return egress.lend(network, options.signal, ({ line, token }) =>
      this.#run({ ...key, egress: line }, { ...job, egressToken: token }, options),
    );
  }

  async #run(key: HostKey, request: LeasedRequest, options: RunOptions): Promise<RunResult> {
    const slot = this.#options.slots.of(key);
    slot.runs += 1;
    try {
      return await (key.tier === 'execute' ? this.#runCommand : this.#runTool).call(this, slot, request, options);
    } finally {
      slot.runs -= 1;
    }
  }

  async #runTool(
    slot: Slot,
    { lifted: _, keeper: __, unixSockets: ___, isSealed = false, ...request }: LeasedRequest,
    options: RunOptions,
  ): Promise<RunResult> {
    if (isSealed) await unlessAborted(this.#options.slots.seal(slot), options.signal);
    const { end, pid } = await this.#runIn(slot, request, options);
    if ('result' in end) return { result: end.result, pid };
    const { closed } = this.#options.slots;
    if (slot.key.tier !== 'read_only' || options.signal.aborted || closed) throw crashed(pid);
    return this.#runAlone(slot, request, options);
  }

  async #runCommand(slot: Slot, leased: LeasedRequest, options: RunOptions): Promise<RunResult> {
    const { slots, masks: known } = this.#options;
    const { lifted = [], keeper, unixSockets = 'none', isSealed: _, ...request } = leased;
    if (!slots.atHand(slot)) await unlessAborted(slots.ready(slot), options.signal);
    // The masks come last, to be as new as possible for the command.
    const masks = await unlessAborted(known.ofCommand(slot.key, lifted), options.signal);
    const sockets = unixSockets === 'own' ? known.socketsOf(slot.key) : undefined;
    if (keeper && !slot.retained.has(keeper.session)) slot.retained.set(keeper.session, keeper);
    const keeperOfJob = keeper && { keeper: { session: keeper.session, keptMax: slots.keptMax(slot) } };
    const { end, pid } = await this.#runIn(
      slot,
      { ...request, masks, ...(sockets && { sockets }), ...keeperOfJob },
      options,
    );
    const sandboxFacts = { unixSockets: sockets ? 'own' : 'none', coarse: masks.coarse } as const;
    if ('result' in end) return { result: end.result, pid, ...sandboxFacts };
    throw crashed(pid);
  }

  async #runIn(slot: Slot, request: JobRequest, options: RunOptions): Promise<{ end: JobEnd; pid: number }> {
    const { slots } = this.#options;
    options.signal.throwIfAborted();
    let host = slots.atHand(slot) ?? (await unlessAborted(slots.ready(slot), options.signal));
    // An idle host may have been ended meanwhile, to make room or for its masks; nothing has begun yet.
    if (!host.alive) host = await unlessAborted(slots.ready(slot), options.signal);
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
    slots.release(host);
    return { end, pid };
  }

  /** Runs calls whose host died, one at a time, each on a host of its own. */
  async #runAlone(slot: Slot, request: JobRequest, options: RunOptions): Promise<RunResult> {
    const before = slot.alone;
    const { promise, resolve } = Promise.withResolvers<void>();
    slot.alone = promise;
    try {
      await before;
      return await this.#runApart(slot, request, options);
    } finally {
      resolve();
    }
  }

  /** Runs a job on a host for this call only. */
  async #runApart(slot: Slot, request: JobRequest, options: RunOptions): Promise<RunResult> {
    const host = await this.#options.slots.startApart(slot);
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
