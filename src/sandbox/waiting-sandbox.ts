/**
 * A sandbox for the next command, built while the one before it runs: forking, and bubblewrap's building, are four fifths of what a
 * short command takes. Nothing of any command has been in it. Where its line ends before all words of one came, it runs none, and ends.
 */
import { isDeepStrictEqual } from 'node:util';
import type { Powers, Timer } from '../powers.ts';
import type { CommandRequest, CommandSetup } from './command.ts';
import {
  type Begun,
  beginWaiting,
  isMasked,
  isSettled,
  lateWordsOf,
  type Parts,
  type Shape,
  shapeOf,
  type Waiting,
} from './command-start.ts';

export class WaitingSandbox {
  readonly #setup: CommandSetup;
  readonly #powers: Powers;
  /** Of the last command: the next one is likely to be like it. */
  #parts: Parts | undefined;
  #begun: Waiting | undefined;
  #timer: Timer | undefined;

  constructor(setup: CommandSetup, powers: Powers) {
    this.#setup = setup;
    this.#powers = powers;
  }

  /**
   * The one that waits, told to run the command, if it can have it; whoever takes it owns it. A promise where it is still being built;
   * aborted meanwhile, it is told nothing. Throws INPUT_INVALID.
   */
  take(request: CommandRequest, shape: Shape): Begun | Promise<Begun | undefined> | undefined {
    const words = lateWordsOf(request, this.#setup);
    // Those are few, and would leave another kind of sandbox for the many that are not like them.
    if (!words) return undefined;
    const { cwd, workspace, readOnly, masks, bounds } = request;
    this.#parts = { cwd, workspace, masks, bounds, ...(readOnly !== undefined && { readOnly }) };
    const begun = this.#begun;
    if (!begun || !isDeepStrictEqual(begun.shape, shape)) return undefined;
    this.#begun = undefined;
    return begun.isBuilt ? tell(begun, words) : tellOnceBuilt(begun, words, request.signal);
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
    let begun: Waiting;
    try {
      const shape = shapeOf(this.#parts, this.#setup);
      const old = this.#begun;
      if (old && isDeepStrictEqual(old.shape, shape) && (!old.isBuilt || isMasked(old))) return;
      this[Symbol.dispose]();
      if (!isSettled(shape, this.#powers.now())) return;
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

  #drop(begun: Waiting): void {
    if (this.#begun !== begun) return;
    this.#begun = undefined;
    end(begun);
  }
}

/** Undefined, and it is ended, where a mask of it is gone. */
function tell(begun: Waiting, words: Buffer): Begun | undefined {
  if (!isMasked(begun)) return end(begun);
  begun.line.end(words);
  return begun;
}

async function tellOnceBuilt(begun: Waiting, words: Buffer, signal: AbortSignal): Promise<Begun | undefined> {
  const aborted = Promise.withResolvers<void>();
  const onAbort = () => aborted.resolve();
  signal.addEventListener('abort', onAbort);
  if (!signal.aborted) await Promise.race([begun.built, aborted.promise]);
  signal.removeEventListener('abort', onAbort);
  // Its end may have been told before anybody else listens for that.
  if (begun.child.exitCode !== null || begun.child.signalCode !== null) return end(begun);
  if (begun.isBuilt) return tell(begun, words);
  // Whoever has it ends it.
  return signal.aborted ? begun : end(begun);
}

function end(begun: Waiting): undefined {
  // Without its line it ends by itself, should bubblewrap not have said yet which process is to be killed.
  begun.line.destroy();
  begun.status.kill(begun.child);
  begun[Symbol.dispose]();
}
