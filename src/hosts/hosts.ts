/** The tier hosts of a daemon: slots choose the host of a call, runs run the call in it. */
import type { HostStatus } from '../base/call.ts';
import { ToolError } from '../base/errors.ts';
import { type Powers, settlesWithin } from '../base/powers.ts';
import type { OutsideProgram } from '../base/protected-names.ts';
import type { Egress } from './egress.ts';
import { type CoarseIn, type HostKey, HostMasks, NO_VIEW, type UnfollowedIn } from './host-masks.ts';
import { type RunOptions, type RunRequest, type RunResult, Runs } from './runs.ts';
import type { NotKept, ShadowedRun } from './shadow/shadow-line.ts';
import { Slots } from './slots/slots.ts';
import { type StartHostOptions, startHost } from './start-host.ts';

export type { CoarseIn, HostKey, UnfollowedIn } from './host-masks.ts';
export type { PathView } from './job.ts';

export interface HostsOptions extends StartHostOptions {
  /** The masks of workspaces, if they were begun before; ended with the hosts. */
  readonly masks?: HostMasks;
  /** Absent if no command has the proxy. */
  readonly egress?: Egress;
}

export class Hosts implements AsyncDisposable {
  readonly #masks: HostMasks;
  readonly #slots: Slots;
  readonly #runs: Runs;
  readonly #powers: Powers;
  readonly #limits: HostsOptions['limits'];

  constructor(options: HostsOptions, powers: Powers) {
    const { limits, egress } = options;
    this.#powers = powers;
    this.#limits = limits;
    this.#masks = options.masks ?? new HostMasks(limits, powers);
    const followerOf = (workspace: string) => this.#masks.followerOf({ workspace });
    const start = (key: HostKey, masks: Parameters<typeof startHost>[1]) =>
      startHost(key, masks, { ...options, followerOf }, powers);
    this.#slots = new Slots({ start, masks: this.#masks, limits }, powers);
    this.#runs = new Runs({ slots: this.#slots, masks: this.#masks, egress });
  }

  /** Starts a host without a network; resolves when its process runs, before it takes jobs. */
  async begin(key: HostKey): Promise<void> {
    await this.#slots.begin(this.#slots.of(this.#runs.placed(key)));
  }

  /** Starts hosts one after another, while there is room for more; a call reports its host's failure. */
  async warm(all: readonly HostKey[]): Promise<void> {
    for (const key of all)
      try {
        await this.#slots.start(this.#slots.of(this.#runs.placed(key)), false);
      } catch (error) {
        if (error instanceof ToolError && error.code === 'QUEUE_FULL') return;
        if (!this.#slots.closed) this.#powers.log.warn({ tier: key.tier, error }, 'tier host not warmed');
      }
  }

  /** Runs a job in the host of its key; see `Runs`. */
  async run(key: HostKey, request: RunRequest, options: RunOptions): Promise<RunResult> {
    const { double } = this.#powers;
    const isCommand = double && key.tier === 'execute' && 'tool' in request;
    return this.#runs.run(key, isCommand ? await double(request) : request, options);
  }

  /** Lets the write host of a key read its workspace, in the background; a host is started if there is none. */
  async prepareShadow(writer: HostKey, isUrgent = false): Promise<void> {
    try {
      const slot = this.#slots.of(writer);
      const host = slot.host?.takesJobs ? slot.host : await this.#slots.start(slot, isUrgent);
      host.shadow?.prepare();
    } catch (error) {
      if (!this.#slots.closed) this.#powers.log.warn({ error }, 'changes of commands can not be kept');
    }
  }

  /** A command is about to start whose changes the write host of a key keeps. Never rejects. */
  async beginShadow(writer: HostKey): Promise<ShadowedRun | NotKept> {
    await settlesWithin(this.prepareShadow(writer, true), this.#limits.shadowBeginMs, this.#powers);
    const { host } = this.#slots.of(writer);
    return (host?.takesJobs && host.shadow?.begin()) || 'not-ready';
  }

  /** Tools of ours are about to write paths of a workspace, until the result is called. */
  expect(workspace: string, paths: readonly string[]): (() => Promise<void>) | undefined {
    return this.#masks.expect({ workspace, view: NO_VIEW }, paths);
  }

  coarseMasks = (): CoarseIn[] => this.#masks.coarse();
  unfollowed = (): UnfollowedIn[] => this.#masks.unfollowed();
  outsidePrograms = (): OutsideProgram[] => this.#masks.outsidePrograms();

  /** False if no host is there and the last one could not be started. */
  get canStart(): boolean {
    return this.#slots.canStart;
  }

  /** Resolves when one of the hosts answers, or at once if none takes jobs. */
  answers(): Promise<void> {
    return this.#slots.answers();
  }

  status(): Promise<HostStatus[]> {
    return this.#slots.status();
  }

  /** Ends everything that hosts keep for a session that is over. */
  endSession(session: string): void {
    this.#slots.endSession(session);
  }

  /** Ends everything that hosts keep for sessions whose policy changed. */
  endStale(): void {
    this.#slots.endStale();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([this.#masks[Symbol.asyncDispose](), this.#slots[Symbol.asyncDispose]()]);
  }
}
