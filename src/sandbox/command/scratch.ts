/** Whether a command's scratch space (/tmp, in memory) was full at some time: programs that meet that may go on without a word of it. */
import { closeSync, openSync, statfsSync } from 'node:fs';
import type { Limits } from '../../limits.ts';
import type { Powers, Timer } from '../../powers.ts';

/** Share of it that is full: programs leave room that is smaller than what they want to write. */
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

  /** Of the sandbox with that init, as this process sees it. */
  begin(init: number): void {
    this.#init = init;
    this.#lookLater();
  }

  /** Looks once more: also when the sandbox is gone, whose scratch space is held open. */
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
      // While the sandbox is being built, another /tmp is there.
      if (blocks * bsize !== this.#limits.commandTmpBytes) return closeSync(fd);
      this.#fd = fd;
      this.#wasFull ||= blocks - bfree >= FULL * blocks;
    } catch {
      // ENOENT, EACCES: the sandbox is not built yet, or gone.
    }
  }
}
