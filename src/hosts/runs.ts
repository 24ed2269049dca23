/** Runs jobs in the hosts of their slots; runs reads again whose host died. */

import type { ToolError } from '../base/errors.ts';
import { type OutsideProgram, protectedPart } from '../base/protected-names.ts';
import type { NetworkLayer } from '../policy/network.ts';
import type { UnixSockets } from '../policy/schema/tiers.ts';
import type { CoarseMask } from '../sandbox/coarse-masks.ts';
import type { EgressReport } from '../sandbox/egress/proxy-messages.ts';
import type { Egress, EgressAttachment, EgressDoor, ServiceDoor, Terms } from './egress.ts';
import type { Host, RunOptions as HostRunOptions, JobEnd } from './host.ts';
import type { HostKey, HostMasks } from './host-masks.ts';
import type { JobRequest, JobResult, JobTerms, Work } from './job.ts';
import type { LeftBehind } from './quarantine/commands.ts';
import type { ItemOwner } from './quarantine/quarantine.ts';
import type { RetainedSession } from './retained-sessions.ts';
import { crashed, end, unlessAborted } from './shutdown.ts';
import type { Slot, Slots } from './slots/slots.ts';

/** The result of a job with facts about its run. */
export interface RunResult {
  readonly result: JobResult;
  readonly pid: number;
  /** What the command left where programs of the person run it. */
  readonly left?: LeftBehind | undefined;
  /** Directories that were hidden from the command more coarsely than its policy says. */
  readonly coarse?: readonly CoarseMask[] | undefined;
  /** Programs of the person that follow the workspace, and that no result has named yet. */
  readonly outside?: readonly OutsideProgram[];
  /** Whether the command could have Unix sockets of its own. */
  readonly unixSockets?: UnixSockets;
  /** The command's connections; `lost` if the proxy died meanwhile, absent if the command had no network. */
  readonly egress?: EgressReport | 'lost';
}

export type RunRequest = Work & RunTerms;

export interface RunTerms extends Omit<JobTerms, 'masks' | 'keeper' | 'egressToken' | 'services'> {
  /** The session for which the host keeps something between calls. */
  readonly keeper?: RetainedSession | undefined;
  /** Whether the command may have Unix sockets of its own. */
  readonly unixSockets?: UnixSockets;
  /** What the command may connect to, as policy layers; absent for a command without the proxy. */
  readonly network?: readonly NetworkLayer[] | undefined;
  /** Asks about hosts that `network` does not name; nobody is asked if absent. */
  readonly door?: EgressDoor | undefined;
  /** Services of the machine that the command reaches; none if absent. */
  readonly services?: ServiceDoor | undefined;
  /** What the proxy adds to the command's requests. */
  readonly keys?: Terms['keys'];
  /** Access to the egress proxy that the caller holds and gives back, in place of `network`. */
  readonly lease?: EgressAttachment | undefined;
  /** The call, for what it leaves at protected names. */
  readonly owner?: ItemOwner | undefined;
  /** Whether programs in the host read files that no tool checks, so that its masks must be as new as a command's. */
  readonly isSealed?: boolean;
}

/** A request with the proxy's token in place of its network. */
type LeasedRequest = Work &
  Omit<RunTerms, 'network' | 'door' | 'services' | 'keys' | 'lease'> &
  Pick<JobTerms, 'egressToken' | 'services'>;

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
  readonly egress?: Egress | undefined;
}

/** The owner of what a command leaves that no call asked for. */
const NOBODY: ItemOwner = { callId: '', sessionId: '', principal: '' };

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
    const { network, door, services, keys, lease, ...job } = request;
    const { egress } = this.#options;
    const withProxy = (token: string) => ({
      ...job,
      egressToken: token,
      services: services?.ports,
    });
    if (lease) return this.#run({ ...key, egress: lease.line }, withProxy(lease.token), options);
    if (!network || !egress) return this.#run(this.placed(key, job.keeper), job, options);
    const { line, token, close } = egress.attach({ layers: network, door, services, keys });
    let report: EgressReport | 'lost' = 'lost';
    let ran: RunResult;
    try {
      ran = await this.#run({ ...key, egress: line }, withProxy(token), options);
    } finally {
      report = await close();
    }
    return { ...ran, egress: report };
  }

  /**
   * The key with the proxy of its commands: all execute hosts of a workspace and its rules are one. A session that keeps something in a
   * host stays with that host, also after the host's proxy was replaced. Throws SANDBOX_UNAVAILABLE.
   */
  placed(key: HostKey, keeper?: RetainedSession): HostKey {
    const { egress, slots } = this.#options;
    if (key.tier !== 'execute' || key.egress || !egress) return key;
    return (keeper && slots.keeping(key, keeper)?.key) ?? { ...key, egress: egress.line };
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
    { keeper: _, unixSockets: __, owner: ___, isSealed = false, ...request }: LeasedRequest,
    options: RunOptions,
  ): Promise<RunResult> {
    if (isSealed) await unlessAborted(this.#options.slots.seal(slot), options.signal);
    const { lifted = [] } = request;
    const isExpected = lifted.some((it) => protectedPart(it) !== undefined);
    const written = isExpected ? this.#options.masks.expect(slot.key, lifted) : undefined;
    const { end, pid } = await this.#runIn(slot, request, options).finally(() => written?.());
    if ('result' in end) return { result: end.result, pid };
    const { closed } = this.#options.slots;
    if (slot.key.tier !== 'read_only' || options.signal.aborted || closed) throw crashed(pid);
    return this.#runAlone(slot, request, options);
  }

  async #runCommand(slot: Slot, leased: LeasedRequest, options: RunOptions): Promise<RunResult> {
    const { slots, masks: known } = this.#options;
    const { lifted = [], keeper, unixSockets = 'none', owner, isSealed: _, ...request } = leased;
    if (!slots.atHand(slot)) await unlessAborted(slots.ready(slot), options.signal);
    // The masks come last, to be as new as possible for the command.
    const masks = await unlessAborted(known.ofCommand(slot.key, lifted), options.signal);
    const sockets = unixSockets === 'own' ? known.socketsOf(slot.key) : undefined;
    if (keeper && !slot.retained.has(keeper.session)) slot.retained.set(keeper.session, keeper);
    const keeperOfJob = keeper && { session: keeper.session, keptMax: slots.keptMax(slot) };
    const changes = !request.readOnly && !('overlay' in request);
    using followed = changes && !keeper ? known.follow(slot.key, masks, options.signal) : undefined;
    const ended = new AbortController();
    const onEnd = (why: ToolError) => ended.abort(why);
    const guarded = { owner: owner ?? NOBODY, masks, isForeground: keeper === undefined, onEnd };
    using newcomers = changes ? await known.guard(slot.key, guarded) : undefined;
    const signal = AbortSignal.any([followed?.signal ?? options.signal, ended.signal]);
    const { end, pid, host } = await this.#runIn(
      slot,
      { ...request, masks: newcomers?.masks ?? masks, sockets, keeper: keeperOfJob },
      { ...options, signal },
    );
    if (keeper) newcomers?.hold(() => host.alive && host.kept > 0);
    if (ended.signal.aborted) throw ended.signal.reason;
    if (!('result' in end)) throw crashed(pid);
    const left = await newcomers?.end();
    const sandboxFacts = { unixSockets: sockets ? 'own' : 'none', coarse: masks.coarse } as const;
    const result = followed ? await followed.resultOf(end.result) : end.result;
    const outside = known.newOutsidePrograms(slot.key.workspace);
    return { result, pid, ...sandboxFacts, outside, left };
  }

  async #runIn(
    slot: Slot,
    request: JobRequest,
    options: RunOptions,
  ): Promise<{ end: JobEnd; pid: number; host: Host }> {
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
    return { end, pid, host };
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
