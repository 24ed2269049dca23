/** Which hosts there are: started on demand, warmed, reaped when idle, replaced when they die, never more than `hostsMax`. */
import pidusage from 'pidusage';
import type { Tier } from '../call.ts';
import { ToolError } from '../errors.ts';
import type { Limits } from '../limits.ts';
import type { Powers } from '../powers.ts';
import { BARE_ENVIRONMENT, type Sandbox } from '../sandbox/sandbox.ts';
import { Host, type JobEnd, type JobRequest, type RunOptions } from './host.ts';
import type { HostSetup, JobResult } from './job.ts';

export interface HostStatus {
  tier: Tier;
  workspace: string;
  pid: number;
  threads: number;
  busy: number;
  rssBytes: number;
  cpuMs: number;
  restarts: number;
}

export interface HostsOptions {
  readonly sandbox: Sandbox;
  /** Node and its arguments for a host process. */
  readonly program: readonly string[];
  readonly limits: Limits;
}

/** What a job ran on, for its result. */
export interface Ran {
  readonly result: JobResult;
  readonly pid: number;
}

interface Slot {
  readonly tier: Tier;
  readonly workspace: string;
  host?: Host;
  restarts: number;
  /** The end of the line of calls that run again alone, after a host died under them. */
  alone: Promise<unknown>;
}

/** Threads of a host and the jobs that each takes at once. */
function shapeOf(tier: Tier, limits: Limits): { threads: number; jobsPerThread: number } {
  // Commands are waited for, and one thread waits for many. Reading is short: a thread that has its next job need not be woken.
  if (tier === 'execute') return { threads: 1, jobsPerThread: limits.hostCommandsMax };
  return { threads: limits.hostThreadsMax, jobsPerThread: tier === 'read_only' ? limits.threadJobsMax : 1 };
}

/** Jobs that a host of this tier takes at once. */
export function placesOf(tier: Tier, limits: Limits): number {
  const { threads, jobsPerThread } = shapeOf(tier, limits);
  return threads * jobsPerThread;
}

const REAP_EVERY_MS = 10_000;

export class Hosts implements AsyncDisposable {
  readonly #slots = new Map<string, Slot>();
  readonly #lone = new Set<Host>();
  readonly #options: HostsOptions;
  readonly #powers: Powers;
  #closed = false;

  constructor(options: HostsOptions, powers: Powers) {
    this.#options = options;
    this.#powers = powers;
    this.#reapLater();
  }

  /** Starts the host of a tier for a workspace, so that its first call need not wait; failures show at that call. */
  warm(tier: Tier, workspace: string): void {
    try {
      this.#hostOf(this.#slot(tier, workspace));
    } catch (error) {
      this.#powers.log.warn({ tier, error }, 'tier host not warmed');
    }
  }

  /**
   * Runs a job in the host of its tier and workspace.
   * Throws SANDBOX_UNAVAILABLE when there can be none, HOST_CRASHED when it died under the job: at once, or for
   * read_only after a second run alone, so that the call that kills hosts is found and those beside it never notice.
   */
  async run(tier: Tier, workspace: string, request: JobRequest, options: RunOptions): Promise<Ran> {
    const slot = this.#slot(tier, workspace);
    const host = await this.#readyHost(slot);
    const pid = host.pid;
    const end = await host.run(request, options);
    if ('result' in end) return { result: end.result, pid };
    if (tier !== 'read_only' || options.signal.aborted || this.#closed) throw crashed(pid);
    return this.#runAlone(slot, request, options);
  }

  async status(): Promise<HostStatus[]> {
    const live = [...this.#slots.values()].flatMap((slot) => (slot.host?.alive ? [{ slot, host: slot.host }] : []));
    const pids = live.map(({ host }) => host.pid);
    // A host that ends meanwhile is left out by pidusage.
    const usage: Record<number, { memory: number; ctime: number }> =
      pids.length === 0 ? {} : await pidusage(pids).catch(() => ({}));
    return live.map(({ slot, host }) => ({
      tier: slot.tier,
      workspace: slot.workspace,
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
    const hosts = [...this.#lone, ...[...this.#slots.values()].flatMap(({ host }) => host ?? [])];
    for (const host of hosts) host.kill();
    await Promise.all(hosts.map((host) => host.gone));
  }

  #slot(tier: Tier, workspace: string): Slot {
    const key = `${tier}\0${workspace}`;
    const known = this.#slots.get(key);
    if (known) return known;
    const slot: Slot = { tier, workspace, restarts: 0, alone: Promise.resolve() };
    this.#slots.set(key, slot);
    return slot;
  }

  /** One that takes jobs. A host that died while it started has begun nothing, so that another is tried, once. */
  async #readyHost(slot: Slot): Promise<Host> {
    const first = this.#hostOf(slot);
    try {
      await first.ready;
      return first;
    } catch {
      // The second one's failure is told.
      const second = this.#hostOf(slot);
      await second.ready;
      return second;
    }
  }

  #hostOf(slot: Slot): Host {
    if (this.#closed) throw new ToolError('SHUTTING_DOWN', 'the daemon is shutting down');
    if (slot.host?.alive) return slot.host;
    if (slot.host) slot.restarts += 1;
    this.#makeRoom();
    slot.host = this.#start(slot);
    return slot.host;
  }

  #start({ tier, workspace }: Slot): Host {
    const { sandbox, program, limits } = this.#options;
    const host = new Host({
      ...{ tier, workspace, program, sandbox, limits, powers: this.#powers },
      setup: this.#setup(tier, workspace),
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

  #setup(tier: Tier, workspace: string): HostSetup {
    const { sandbox, limits } = this.#options;
    const common = { tier, limits, ...(tier !== 'external_api' && { workspace }) };
    if (tier !== 'execute') return { ...common, ...shapeOf(tier, limits) };
    return {
      ...common,
      command: { ...sandbox.commandSandbox(workspace), environment: { ...BARE_ENVIRONMENT, TERM: 'dumb' } },
      ...shapeOf(tier, limits),
    };
  }

  /** Ends the host that has been idle longest, so that many workspaces can't fill the machine. */
  #makeRoom(): void {
    const live = [...this.#slots.values()].filter(({ host }) => host?.alive);
    if (live.length < this.#options.limits.hostsMax) return;
    const idle = live.filter(({ host }) => host?.jobs === 0);
    const idlest = idle.sort((a, b) => (a.host?.idleSince ?? 0) - (b.host?.idleSince ?? 0))[0];
    if (!idlest)
      throw new ToolError('QUEUE_FULL', `all ${live.length} tier hosts are busy`, { details: { retryAfterMs: 1000 } });
    this.#drop(idlest);
  }

  #drop(slot: Slot): void {
    slot.host?.kill();
    delete slot.host;
  }

  #reapLater(): void {
    this.#powers.after(REAP_EVERY_MS, () => {
      if (this.#closed) return;
      const { hostIdleMs } = this.#options.limits;
      for (const [key, slot] of this.#slots) {
        const { host } = slot;
        if (!host || host.jobs > 0 || this.#powers.monotonicMs() - host.idleSince < hostIdleMs) continue;
        this.#drop(slot);
        this.#slots.delete(key);
      }
      this.#reapLater();
    });
  }

  /** One call at a time on a host of its own, which the next one takes over if it lives. */
  async #runAlone(slot: Slot, request: JobRequest, options: RunOptions): Promise<Ran> {
    const before = slot.alone;
    const { promise, resolve } = Promise.withResolvers<void>();
    slot.alone = promise;
    await before;
    const host = this.#start(slot);
    this.#lone.add(host);
    try {
      await host.ready;
      const pid = host.pid;
      const end: JobEnd = await host.run(request, options);
      if ('crashed' in end) throw crashed(pid);
      return { result: end.result, pid };
    } finally {
      host.kill();
      this.#lone.delete(host);
      resolve();
    }
  }
}

function crashed(pid: number): ToolError {
  return new ToolError('HOST_CRASHED', 'the tier host of this call died under it', {
    suggestion: 'What the call had already done is not undone; look before you try again.',
    details: { hostPid: pid },
  });
}
