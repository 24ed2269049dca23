/** The daemon of a soak: its state is on a small disk, its clock can jump, and it is started anew after it was killed. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { processesWith, removeTree, startDaemon, type TestDaemon, temporaryDir } from '../../test/support/daemon.ts';
import { here } from '../results.ts';

const DISK_MB = 256;
const MIB = 1024 * 1024;
/** What is kept fits on that disk, so that hours of calls fill it no more than the fault that does so. */
const LIMITS = {
  auditBytesMax: 48 * MIB,
  auditOverflowBytesMax: 16 * MIB,
  auditMinAgeMs: 60_000,
  journalBytesMax: 32 * MIB,
  resultLogTotalBytesMax: 32 * MIB,
  callBytesKept: 16 * MIB,
};

export class SoakArena implements AsyncDisposable {
  readonly #folder = temporaryDir('soak');
  readonly workspace = join(this.#folder, 'ws');
  readonly stateDir = join(this.#folder, 'state');
  /** Whether the state is on a disk of its own, which may be filled. */
  readonly hasDisk: boolean;
  #daemon: TestDaemon | undefined;
  /** Milliseconds for which no daemon was up between two. */
  downMs = 0;
  /** Logs of the daemons that have ended. */
  #log = '';
  #isRestarting = false;
  #disposed: Promise<void> | undefined;

  private constructor() {
    for (const it of [this.workspace, this.stateDir]) mkdirSync(it, { mode: 0o700 });
    // Only root may mount.
    this.hasDisk = process.getuid?.() === 0;
    if (this.hasDisk) execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${DISK_MB}m,mode=700`, 'tmpfs', this.stateDir]);
  }

  static async open(): Promise<SoakArena> {
    const arena = new SoakArena();
    try {
      arena.#daemon = await arena.#start();
      return arena;
    } catch (error) {
      await arena[Symbol.asyncDispose]();
      throw error;
    }
  }

  get daemon(): TestDaemon {
    return this.#daemon as TestDaemon;
  }

  /** False from the kill of a daemon until the next one is ready. */
  get isUp(): boolean {
    return !this.#isRestarting;
  }

  /** What all daemons have logged. */
  get log(): string {
    return this.#log + (this.#daemon?.log() ?? '');
  }

  #start(): Promise<TestDaemon> {
    const clock = `--import=${here('soak/jumping-clock.ts')}`;
    const { stateDir, workspace } = this;
    return startDaemon({ stateDir, workspace, limits: LIMITS, env: { NODE_OPTIONS: clock } });
  }

  /** Kills the daemon and starts the next one on the same state. */
  async killDaemon(): Promise<void> {
    this.#isRestarting = true;
    const since = performance.now();
    this.daemon.process.kill('SIGKILL');
    await this.daemon.ended;
    this.#log += `${this.daemon.log()}--- killed; the next daemon starts\n`;
    this.#daemon = await this.#start();
    this.downMs += performance.now() - since;
    this.#isRestarting = false;
  }

  /** The pids of all that the daemon started, and of what those started. */
  descendants(): number[] {
    const found: number[] = [];
    const next = [this.daemon.pid];
    for (let pid = next.pop(); pid !== undefined; pid = next.pop()) {
      const children = childrenOf(pid);
      found.push(...children);
      next.push(...children);
    }
    return found;
  }

  /** Ends the daemon and removes everything. Returns how many processes were left over. */
  async close(): Promise<number> {
    await this.#daemon?.[Symbol.asyncDispose]();
    this.#log = this.log;
    this.#daemon = undefined;
    return processesWith(this.#folder).length;
  }

  /** Removes everything; later calls do nothing. */
  [Symbol.asyncDispose](): Promise<void> {
    this.#disposed ??= this.#dispose();
    return this.#disposed;
  }

  async #dispose(): Promise<void> {
    await this.close();
    // Lazily: a daemon that was being started has the disk open until it ends.
    if (this.hasDisk) execFileSync('umount', ['--lazy', this.stateDir]);
    removeTree(this.#folder);
  }
}

function childrenOf(pid: number): number[] {
  try {
    return readdirSync(`/proc/${pid}/task`)
      .flatMap((thread) => readFileSync(`/proc/${pid}/task/${thread}/children`, 'utf8').trim().split(' '))
      .filter(Boolean)
      .map(Number);
  } catch {
    return []; // ENOENT: the process has ended.
  }
}
