/**
 * A sandbox for the next command, built while the one before it runs: forking, and bubblewrap's building, are four fifths of what a
 * short command takes. Nothing of any command has been in it. Where its line ends before all words of one came, it runs none, and ends.
 */
import type { Powers, Timer } from '../powers.ts';
import type { CommandRequest, CommandSetup } from './command.ts';
import { type Begun, beginWaiting, fits, lateWordsOf, type Parts, type Shape, shapeOf } from './command-start.ts';

export class WaitingSandbox {
  readonly #setup: CommandSetup;
  readonly #powers: Powers;
  /** Of the last command: the next one is likely to be like it. */
  #parts: Parts | undefined;
  #begun: Begun | undefined;
  #timer: Timer | undefined;

  constructor(setup: CommandSetup, powers: Powers) {
    this.#setup = setup;
    this.#powers = powers;
  }

  /** The one that waits, told to run the command, if it can have it; whoever takes it owns it. Throws INPUT_INVALID. */
  take(request: CommandRequest, shape: Shape): Begun | undefined {
    const words = lateWordsOf(request, this.#setup);
    // Those are few, and would leave another kind of sandbox for the many that are not like them.
    if (!words) return undefined;
    const { cwd, workspace, readOnly, masks, bounds } = request;
    this.#parts = { cwd, workspace, masks, bounds, ...(readOnly !== undefined && { readOnly }) };
    const begun = this.#begun;
    if (!begun || !fits(begun.shape, shape)) return undefined;
    this.#begun = undefined;
    begun.line?.end(words);
    return begun;
  }

  /** Builds the next one in a while, instead of when that was said before. */
  prepareIn(delayMs: number): void {
    this.#timer?.cancel();
    this.#timer = this.#powers.after(delayMs, () => this.prepare());
  }

  /** Builds the next one, unless it waits already. It takes some milliseconds, in which this thread does nothing else. */
  prepare(): void {
    this.#timer?.cancel();
    if (!this.#parts) return;
    let begun: Begun;
    try {
      const shape = shapeOf(this.#parts, this.#setup, this.#powers);
      if (this.#begun && fits(this.#begun.shape, shape)) return;
      this[Symbol.dispose]();
      if (!shape.masked) return;
      begun = beginWaiting(shape, this.#setup, this.#powers);
    } catch {
      return; // SANDBOX_UNAVAILABLE, EMFILE: the next command tries again, and says why not.
    }
    for (const event of ['exit', 'error']) begun.child.once(event, () => this.#drop(begun));
    begun.admitted.catch(() => this.#drop(begun));
    if (begun.child.pid === undefined) begun[Symbol.dispose]();
    else this.#begun = begun;
  }

  /** Ends the one that waits. */
  [Symbol.dispose](): void {
    this.#timer?.cancel();
    if (this.#begun) this.#drop(this.#begun);
  }

  #drop(begun: Begun): void {
    if (this.#begun !== begun) return;
    this.#begun = undefined;
    // Without its line it ends by itself, should bubblewrap not have said yet which process is to be killed.
    begun.line?.destroy();
    begun.status.kill(begun.child);
    begun[Symbol.dispose]();
  }
}
