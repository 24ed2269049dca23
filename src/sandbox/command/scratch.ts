/** Watches whether a command's scratch space (/tmp, in memory) was ever full: programs may go on without reporting it. */
import { closeSync, openSync, statfsSync } from 'node:fs';
import type { Limits } from '../../base/limits.ts';
import type { Powers, Timer } from '../../base/powers.ts';

/** Share from which it counts as full: programs leave a rest that is smaller than their next write. */
const FULL = 0.98;

export class ScratchWatch implements Disposable {
  readonly #limits: Limits;
  readonly #powers: Powers;
  #init: number | undefined;
  #fd: number | undefined;
  #timer: Timer | undefined;
  #wasFull = false;

  constructor(limits: Limits, powers: Powers) {
    this.#limits = limits;
    this.#powers = powers;
  }

  /** Begins to watch the sandbox with that init, a pid of our namespace. */
  begin(init: number): void {
    this.#init = init;
    this.#lookLater();
  }

  /** Checks once more, even after the sandbox has ended: its scratch space is held open. */
  get wasFull(): boolean {
    this.#look();
    return this.#wasFull;
  }

  [Symbol.dispose](): void {
    this.#timer?.cancel();
    if (this.#fd !== undefined) closeSync(this.#fd);
    this.#fd = undefined;
  }

  #lookLater(): void {
    this.#timer = this.#powers.after(this.#limits.watchdogMs, () => {
      this.#look();
      if (!this.#wasFull) this.#lookLater();
    });
  }

  #look(): void {
    if (this.#init === undefined) return;
    try {
      const fd = this.#fd ?? openSync(`/proc/${this.#init}/root/tmp`, 'r');
      const { blocks, bfree, bsize } = statfsSync(`/proc/self/fd/${fd}`);
      // While the sandbox is being built, its /tmp is another one.
      if (blocks * bsize !== this.#limits.commandTmpBytes) return closeSync(fd);
      this.#fd = fd;
      this.#wasFull ||= blocks - bfree >= FULL * blocks;
    } catch {
      // ENOENT, EACCES: the sandbox is not built yet, or has ended.
    }
  }
}
