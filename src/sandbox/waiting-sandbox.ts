/**
 * The next command's bubblewrap, begun while the one before it runs: 2 ms of a fork and 1 ms until it has come up are nobody's.
 * It has built nothing yet; where its pipe ends before it was told of a command, it runs none, and ends.
 */
import { isDeepStrictEqual } from 'node:util';
import type { Powers } from '../powers.ts';
import type { CommandSetup } from './command.ts';
import { type Begun, begin, type Shape } from './command-start.ts';

export class WaitingSandbox {
  readonly #setup: CommandSetup;
  readonly #powers: Powers;
  /** Of a command before: the next one is likely to be like it. */
  #shape: Shape | undefined;
  #begun: Begun | undefined;

  constructor(setup: CommandSetup, powers: Powers) {
    this.#setup = setup;
    this.#powers = powers;
  }

  /** The one that waits, if a command of that shape can have it; whoever takes it owns it. */
  take(shape: Shape): Begun | undefined {
    // Those are few, and would leave another kind of sandbox for the many that are not like them.
    if (shape.bashArgs || shape.feeds) return undefined;
    this.#shape = shape;
    const begun = this.#begun;
    if (!begun || !isDeepStrictEqual(begun.shape, shape)) return undefined;
    this.#begun = undefined;
    return begun;
  }

  /** Begins the next one, unless it waits already. It takes some milliseconds, in which this thread does nothing else. */
  prepare(): void {
    if (!this.#shape || (this.#begun && isDeepStrictEqual(this.#begun.shape, this.#shape))) return;
    this[Symbol.dispose]();
    let begun: Begun;
    try {
      begun = begin(this.#shape, this.#setup, this.#powers);
    } catch {
      return; // SANDBOX_UNAVAILABLE, EMFILE: the next command tries again, and says why not.
    }
    for (const event of ['exit', 'error']) begun.child.once(event, () => this.#drop(begun));
    if (begun.child.pid === undefined) begun[Symbol.dispose]();
    else this.#begun = begun;
  }

  /** Ends the one that waits. */
  [Symbol.dispose](): void {
    if (this.#begun) this.#drop(this.#begun);
  }

  #drop(begun: Begun): void {
    if (this.#begun !== begun) return;
    this.#begun = undefined;
    // It has started nothing yet.
    begun.child.kill('SIGKILL');
    for (const stream of begun.child.stdio) stream?.destroy();
    begun[Symbol.dispose]();
  }
}
