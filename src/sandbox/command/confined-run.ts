/**
 * One program in a sandbox of its own, from its start to what it used: its group or watchdog, its home, its end and the changes of
 * git's configs. Commands add pipes to it, terminals a pseudoterminal.
 * Everything that the program starts lives in its pid namespace and dies with it, `setsid` or not.
 */
import type { ChildProcess } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { constants } from 'node:os';
import { ToolError } from '../../base/errors.ts';
import type { CommandBounds } from '../../base/limits.ts';
import { type Powers, settlesWithin, type Timer } from '../../base/powers.ts';
import type { GitCopies } from '../git/config/copies.ts';
import type { CommandWatch, ExceededLimit, MeasuredUse } from '../watchdog.ts';
import type { DiskStay } from './disk-watch.ts';
import type { HomeStay } from './homes.ts';
import type { CommandRequest, CommandSetup, StartedSandbox } from './request.ts';

/** How a program ended, and what it used. */
export interface Settled {
  /** 128 + n if signal n ended it; undefined if its whole sandbox was killed. */
  readonly exitCode: number | undefined;
  readonly signal?: string | undefined;
  /** What its processes used, as far as observed; at least what its waited-for processes used. */
  readonly used: MeasuredUse;
}

/** The exit of a program that ended by itself; empty for one that was killed for another reason, or that still runs. */
export function exitOf(
  settled: Settled | undefined,
  ended: string | undefined,
): Pick<Settled, 'signal'> & { readonly exitCode?: number } {
  const { exitCode, signal } = settled ?? {};
  if (ended !== 'exit' || exitCode === undefined) return {};
  return { exitCode, signal };
}

const SIGNALS = new Map(Object.entries(constants.signals).map(([name, number]) => [number, name]));
/** Wait for a bwrap that was killed while its init lived on for a moment. */
const STATUS_WAIT_MS = 1000;

export class ConfinedRun implements Disposable {
  /** Settles when bwrap has ended or could not be started. Never rejects. */
  readonly ended: Promise<void>;
  /** Parts of its home that were removed before it began. */
  readonly homeRemoved: readonly string[];
  readonly #started: StartedSandbox;
  readonly #bounds: CommandBounds;
  readonly #powers: Powers;
  readonly #home: HomeStay | undefined;
  readonly #disk: DiskStay | undefined;
  readonly #parts: DisposableStack;
  #watch: CommandWatch | undefined;
  #grace: Timer | undefined;
  #isStopped = false;
  /** CPU time of waited-for processes; counted here only without a group. */
  #cpuMs = 0;
  /** Why it was not started. */
  #failure: Error | undefined;
  /** Why its sandbox let nothing of the caller's run. */
  #refusal: Error | undefined;

  /** Takes over a sandbox that has just been started. */
  constructor(
    started: StartedSandbox,
    request: CommandRequest,
    { homes, watchdog, disks }: CommandSetup,
    powers: Powers,
  ) {
    const { child, group, status, admitted } = started;
    const { bounds, home, workspace, overlay, readOnly = false } = request;
    using parts = new DisposableStack();
    this.#started = parts.use(started);
    this.#bounds = bounds;
    this.#powers = powers;
    const kill = () => this.stop();
    // A read-only command has no home.
    this.#home = home === undefined || readOnly ? undefined : parts.use(homes?.enter(home, kill));
    this.homeRemoved = this.#home?.removed ?? [];
    const written = [overlay?.upper ?? workspace, ...(homes ? [homes.folder] : [])];
    const disk = readOnly ? undefined : parts.use(disks.enter(written, kill));
    status.onInit((init) => disk?.setInit(init));
    this.#disk = disk;
    group?.watch(kill);
    if (!group) status.onInit((init) => (this.#watch = watchdog.watch({ init, bounds, onExceeded: kill })));
    admitted.catch((error: Error) => {
      if (!this.#isStopped) this.#refusal = error;
      kill();
    });
    this.ended = new Promise((resolve) => {
      child.once('error', (error) => {
        this.#failure = error;
        resolve();
      });
      child.once('exit', () => {
        if (!group) this.#cpuMs = cpuSinceLastMs();
        resolve();
      });
    });
    this.#parts = parts.move();
  }

  get child(): ChildProcess {
    return this.#started.child;
  }

  /** Pid of the program itself in our pid namespace; undefined if there is none. */
  get main(): number | undefined {
    return this.#started.status.main;
  }

  /** Copies of repository configs in the sandbox. */
  get copies(): GitCopies {
    return this.#started.copies;
  }

  /** Calls `listener` once: now, or once the sandbox's init is known. */
  onInit(listener: (init: number) => void): void {
    this.#started.status.onInit(listener);
  }

  /** Kills everything in the sandbox; with a grace period the program gets SIGTERM first. */
  stop(graceMs = 0): void {
    const { status, child } = this.#started;
    this.#isStopped = true;
    if (graceMs > 0 && status.ask()) this.#grace = this.#powers.after(graceMs, () => status.kill(child));
    else status.kill(child);
  }

  /**
   * Tells how the program ended; to be called once it has `ended`. Throws SANDBOX_UNAVAILABLE if its sandbox could not be built;
   * `complaint` gives what bwrap printed, `refusal` the error for it where it is not bubblewrap's own.
   */
  async settle(
    complaint: () => string,
    refusal: (printed: string) => ToolError | undefined = () => undefined,
  ): Promise<Settled> {
    const { status, group } = this.#started;
    if (this.#failure)
      throw new ToolError('SANDBOX_UNAVAILABLE', `bubblewrap could not be started: ${this.#failure.message}`);
    // bwrap's own report may take 100 ms on a slow machine; no other process can hold that pipe.
    await settlesWithin(status.ended, STATUS_WAIT_MS, this.#powers);
    const { exitCode } = status;
    const signal = exitCode === undefined ? undefined : SIGNALS.get((exitCode - 128) as never);
    const used = this.#usedOf((group ?? this.#watch)?.measured, signal);
    if (this.#refusal) throw this.#refusal;
    if (exitCode === undefined && !this.#isStopped && !used.exceeded)
      throw refusal(complaint()) ?? notBuilt(complaint());
    return { exitCode, signal, used };
  }

  [Symbol.dispose](): void {
    this.#grace?.cancel();
    this.#watch?.[Symbol.dispose]();
    for (const stream of this.child.stdio) stream?.destroy();
    this.#parts.dispose();
  }

  /** The watchdog reports the exceeded limit; for a limit that the kernel enforces, a signal that only that limit sends reveals it. */
  #usedOf(seen: MeasuredUse | undefined, signal: string | undefined): MeasuredUse {
    const { cpuMs, fileMb } = this.#bounds;
    const used = { ...seen, cpuMs: Math.max(this.#cpuMs, seen?.cpuMs ?? 0) };
    const byRlimit = (kind: ExceededLimit['kind'], limit: number, amount: number): MeasuredUse => ({
      ...used,
      exceeded: { kind, limit, used: amount, enforcedBy: 'rlimit' },
    });
    if (used.exceeded) return used;
    const exceeded = this.#home?.exceeded ?? this.#disk?.exceeded;
    if (exceeded) return { ...used, exceeded };
    const fileBytes = fileMb * 1024 * 1024;
    if (signal === 'SIGXFSZ') return byRlimit('file', fileBytes, fileBytes);
    if (signal === 'SIGXCPU') return byRlimit('cpu', cpuMs, used.cpuMs);
    return used;
  }
}

function notBuilt(complaint: string): ToolError {
  const last = complaint.trim().split('\n').at(-1) ?? '';
  return new ToolError('SANDBOX_UNAVAILABLE', `the sandbox of this command could not be built: ${last}`, {
    suggestion: 'Run `ringfence status`; bubblewrap may have been removed or changed since the daemon started.',
  });
}

const TICKS_PER_SECOND = 100;
let accountedTicks = 0;

/**
 * Gives the CPU time of the commands that ended since the last call: the host's total of waited-for children, which includes a command
 * and its descendants once it is reaped. Two that end in the same turn of the event loop may be mixed up. Ticks are 10 ms.
 */
function cpuSinceLastMs(): number {
  const fields = readFileSync('/proc/self/stat', 'utf8').split(') ')[1]?.split(' ') ?? [];
  const ticks = Number(fields[13]) + Number(fields[14]);
  const since = ticks - accountedTicks;
  accountedTicks = ticks;
  return (since * 1000) / TICKS_PER_SECOND;
}
