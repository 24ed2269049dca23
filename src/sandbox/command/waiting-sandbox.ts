/**
 * Builds a sandbox for the next command when the one before it ends: starting bubblewrap and building takes four fifths of a short
 * command's time. No command has run in the sandbox before. If its pipe ends before all of a command's words came, it runs none and ends.
 */

import { isDeepStrictEqual } from 'node:util';
import { onAbort, type Powers, type Timer } from '../../base/powers.ts';
import type { CommandRequest, CommandSetup, PipedSandbox, Shape, Waiting } from './request.ts';
import {
  beginWaiting,
  hides,
  isMasked,
  lateWordsOf,
  type ReadySandbox,
  type SandboxRequest,
  shapeOf,
} from './start.ts';

export class WaitingSandbox implements Waiting {
  readonly #setup: CommandSetup;
  readonly #powers: Powers;
  /** What the last command was like: the next one is likely to be like it. */
  #parts: SandboxRequest | undefined;
  #ready: ReadySandbox | undefined;
  #timer: Timer | undefined;

  constructor(setup: CommandSetup, powers: Powers) {
    this.#setup = setup;
    this.#powers = powers;
  }

  /**
   * Sends the command to the waiting sandbox if it fits; the caller then owns that sandbox. Gives a promise if it is still being built;
   * if aborted meanwhile, the sandbox gets no command. Throws INPUT_INVALID.
   */
  take(request: CommandRequest, shape: Shape): PipedSandbox | Promise<PipedSandbox | undefined> | undefined {
    const words = lateWordsOf(request, this.#setup);
    // Such commands are few; preparing for them would displace the sandbox for the usual ones.
    if (!words) return undefined;
    const { cwd, workspace, readOnly = false, asOwner = false, masks, bounds, home, sockets } = request;
    const { egressToken, services = [] } = request;
    const door = egressToken !== undefined && { egressToken, services };
    this.#parts = { cwd, workspace, readOnly, asOwner, masks, bounds, home, sockets, ...door };
    const ready = this.#ready;
    if (!ready || !isDeepStrictEqual(ready.shape, shape)) return undefined;
    this.#ready = undefined;
    return ready.isBuilt ? tell(ready, words, request) : tellOnceBuilt(ready, words, request);
  }

  /** Builds the next sandbox after a delay; replaces an earlier request. */
  prepareIn(delayMs: number): void {
    this.#timer?.cancel();
    this.#timer = this.#powers.after(delayMs, () => this.prepare());
  }

  /** Builds a sandbox for a command like the last one, if none waits. Blocks this thread for a millisecond or two. */
  prepare(): void {
    this.#timer?.cancel();
    if (!this.#parts) return;
    try {
      this.#build(shapeOf(this.#parts, this.#setup));
    } catch {
      // SANDBOX_UNAVAILABLE, EMFILE: the next command tries again, and reports the error.
    }
  }

  /** Ends the waiting sandbox. */
  [Symbol.dispose](): void {
    this.#timer?.cancel();
    this.#drop(this.#ready);
  }

  /** Keeps a sandbox waiting as it would be built now. */
  #build(shape: Shape): void {
    const old = this.#ready;
    if (old && isDeepStrictEqual(old.shape, shape) && (!old.isBuilt || isMasked(old))) return;
    this.#drop(old);
    // Without its directory it would fail to start, again and again.
    if (shape.cwdIs === '' || hides(shape)) return;
    const begun = beginWaiting(shape, this.#setup, this.#powers);
    const lose = () => this.#drop(begun);
    for (const event of ['exit', 'error']) begun.child.once(event, lose);
    begun.admitted.catch(lose);
    if (begun.child.pid === undefined) begun[Symbol.dispose]();
    else this.#ready = begun;
  }

  /** Ends a sandbox if it still waits. */
  #drop(waiting: ReadySandbox | undefined): void {
    if (!waiting || this.#ready !== waiting) return;
    this.#ready = undefined;
    end(waiting);
  }
}

/** One for commands, and one for programs that only read, as git's tools do: agents use them in turns. */
export class WaitingSandboxes implements Waiting, Disposable {
  readonly #changing: WaitingSandbox;
  readonly #reading: WaitingSandbox;

  constructor(setup: CommandSetup, powers: Powers) {
    this.#changing = new WaitingSandbox(setup, powers);
    this.#reading = new WaitingSandbox(setup, powers);
  }

  take: Waiting['take'] = (request, shape) => this.#for(request).take(request, shape);
  prepareIn: Waiting['prepareIn'] = (delayMs, request) => this.#for(request).prepareIn(delayMs);

  [Symbol.dispose](): void {
    for (const it of [this.#changing, this.#reading]) it[Symbol.dispose]();
  }

  #for({ readOnly = false }: CommandRequest): WaitingSandbox {
    return readOnly ? this.#reading : this.#changing;
  }
}

/** Sends the words; if one of the masks is gone, ends the sandbox and gives undefined. */
function tell(begun: ReadySandbox, words: Buffer, { egressToken }: CommandRequest): PipedSandbox | undefined {
  if (!isMasked(begun)) return end(begun);
  if (egressToken !== undefined) begun.give(egressToken);
  begun.line.end(words);
  return begun;
}

async function tellOnceBuilt(
  begun: ReadySandbox,
  words: Buffer,
  request: CommandRequest,
): Promise<PipedSandbox | undefined> {
  const { signal } = request;
  const aborted = Promise.withResolvers<void>();
  using _ = onAbort(signal, aborted.resolve);
  if (!signal.aborted) await Promise.race([begun.built, aborted.promise]);
  // A sandbox that ended while this function waited sends no further 'exit' event.
  if (begun.child.exitCode !== null || begun.child.signalCode !== null) return end(begun);
  if (begun.isBuilt) return tell(begun, words, request);
  // The caller ends it.
  return signal.aborted ? begun : end(begun);
}

function end(begun: ReadySandbox): undefined {
  // Without its pipe it ends by itself, in case bubblewrap has not reported yet which process to kill.
  begun.line.destroy();
  begun.status.kill(begun.child);
  begun[Symbol.dispose]();
}
