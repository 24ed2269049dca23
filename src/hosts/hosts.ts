/** The tier hosts of a daemon: slots choose the host of a call, runs run the call in it. */
import type { HostStatus } from '../call.ts';
import type { NetworkLayer } from '../policy/network.ts';
import type { Powers } from '../powers.ts';
import type { Egress } from './egress.ts';
import { type CoarseIn, type HostKey, HostMasks } from './host-masks.ts';
import { type RunOptions, type RunRequest, type RunResult, Runs } from './runs.ts';
import type { NotKept, ShadowedRun } from './shadow/shadow-line.ts';
import { Slots } from './slots.ts';
import { type StartHostOptions, startHost } from './start-host.ts';

export type { CoarseIn, HostKey } from './host-masks.ts';
export type { PathView } from './job.ts';

export interface HostsOptions extends StartHostOptions {
  /** The masks of workspaces, if they were begun before; ended with the hosts. */
  readonly masks?: HostMasks;
  /** Absent if no command may connect anywhere. */
  readonly egress?: Egress;
}

const NEVER = new AbortController().signal;

export class Hosts implements AsyncDisposable {
  readonly #masks: HostMasks;
  readonly #slots: Slots;
  readonly #runs: Runs;
  readonly #egress: Egress | undefined;
  readonly #powers: Powers;

  constructor(options: HostsOptions, powers: Powers) {
    const { limits, egress } = options;
    this.#egress = egress;
    this.#powers = powers;
    this.#masks = options.masks ?? new HostMasks(limits, powers);
    const start = (key: HostKey, masks: Parameters<typeof startHost>[1]) => startHost(key, masks, options, powers);
    this.#slots = new Slots({ start, masks: this.#masks, limits }, powers);
    this.#runs = new Runs({ slots: this.#slots, masks: this.#masks, ...(egress && { egress }) });
  }

  /** Starts a host without a network; resolves when its process runs, before it takes jobs. */
  async begin(key: HostKey): Promise<void> {
    await this.#slots.begin(this.#slots.of(key));
  }

  /** Starts hosts one after another, so that the first call's host does not share the processors; a call reports its host's failure. */
  async warm(all: readonly { key: HostKey; network: readonly NetworkLayer[] | undefined }[]): Promise<void> {
    for (const { network, key } of all) {
      const start = async (of: HostKey) => ({ pid: (await this.#slots.start(this.#slots.of(of))).pid });
      const lend = network && this.#egress?.lend(network, NEVER, ({ line }) => start({ ...key, egress: line }));
      await (lend ?? start(key)).catch((error: unknown) => {
        if (!this.#slots.closed) this.#powers.log.warn({ tier: key.tier, error }, 'tier host not warmed');
      });
    }
  }

  /** Runs a job in the host of its key; see `Runs`. */
  run(key: HostKey, request: RunRequest, options: RunOptions): Promise<RunResult> {
    return this.#runs.run(key, request, options);
  }

  /** Lets the write host of a key read its workspace, in the background; a host is started if there is none. */
  async prepareShadow(writer: HostKey): Promise<void> {
    try {
      const host = await this.#slots.start(this.#slots.of(writer));
      host.shadow?.prepare();
    } catch (error) {
      if (!this.#slots.closed) this.#powers.log.warn({ error }, 'changes of commands can not be kept');
    }
  }

  /** A command is about to start whose changes the write host of a key keeps. Never rejects. */
  async beginShadow(writer: HostKey): Promise<ShadowedRun | NotKept> {
    const { host } = this.#slots.of(writer);
    if (host?.takesJobs && host.shadow) return host.shadow.begin();
    void this.prepareShadow(writer);
    return 'not-ready';
  }

  coarseMasks = (): CoarseIn[] => this.#masks.coarse();

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
