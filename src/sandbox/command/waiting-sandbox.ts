/**
 * Builds a sandbox for the next command when the one before it ends: starting bubblewrap and building takes four fifths of a short
 * command's time. No command has run in the sandbox before. If its pipe ends before all of a command's words came, it runs none and ends.
 */
import { isDeepStrictEqual } from 'node:util';
import type { Powers, Timer } from '../../powers.ts';
import type { CommandRequest, CommandSetup } from './command.ts';
import {
  type Begun,
  beginWaiting,
  hides,
  isMasked,
  lateWordsOf,
  type Parts,
  type Shape,
  shapeOf,
  type Waiting,
} from './start.ts';

/** Ordinary commands and those of git's tools, which see a read-only workspace, take turns. */
const KINDS_MAX = 2;

/** Waiting sandboxes of the newest kind: for rapid commands, the next one is built while this one runs. */
const READY_MAX = 2;

interface Kind {
  readonly parts: Parts;
  /** Oldest first. */
  readonly ready: Waiting[];
}

export class WaitingSandbox {
  readonly #setup: CommandSetup;
  readonly #powers: Powers;
  /** Kinds of the last commands, newest first: the next command is likely to be like one of them. */
  #kinds: Kind[] = [];
  #timer: Timer | undefined;

  constructor(setup: CommandSetup, powers: Powers) {
    this.#setup = setup;
    this.#powers = powers;
  }

  /**
   * Sends the command to a waiting sandbox if one fits; the caller then owns that sandbox. Gives a promise if it is still being built;
   * if aborted meanwhile, the sandbox gets no command. Throws INPUT_INVALID.
   */
  take(request: CommandRequest, shape: Shape): Begun | Promise<Begun | undefined> | undefined {
    const words = lateWordsOf(request, this.#setup);
    // Such commands are few; preparing for them would displace sandboxes for the usual kinds.
    if (!words) return undefined;
    const { cwd, workspace, readOnly = false, asOwner = false, masks, bounds, home, sockets } = request;
    const own = { ...(home !== undefined && { home }), ...(sockets && { sockets }) };
    const kind = this.#kindOf({ cwd, workspace, readOnly, asOwner, masks, bounds, ...own });
    const [begun] = kind.ready;
    if (!begun || !isDeepStrictEqual(begun.shape, shape)) return undefined;
    kind.ready.shift();
    return begun.isBuilt ? tell(begun, words) : tellOnceBuilt(begun, words, request.signal);
  }

  /** Builds the next sandboxes after a delay; replaces an earlier request. */
  prepareIn(delayMs: number): void {
    this.#timer?.cancel();
    this.#timer = this.#powers.after(delayMs, () => this.prepare());
  }

  /** Builds the sandboxes that are missing. Blocks this thread for a millisecond or two. */
  prepare(): void {
    this.#timer?.cancel();
    for (const [at, kind] of this.#kinds.entries()) {
      try {
        this.#build(kind, at === 0 ? READY_MAX : 1);
      } catch {
        // SANDBOX_UNAVAILABLE, EMFILE: the next command tries again, and reports the error.
      }
    }
  }

  /** Ends all waiting sandboxes. */
  [Symbol.dispose](): void {
    this.#timer?.cancel();
    for (const kind of this.#kinds) dropAll(kind);
  }

  /** Finds or makes a kind, and makes it the newest. */
  #kindOf(parts: Parts): Kind {
    const known = this.#kinds.find((it) => isDeepStrictEqual(it.parts, parts));
    const kind = known ?? { parts, ready: [] };
    const all = [kind, ...this.#kinds.filter((it) => it !== known)];
    for (const old of all.splice(KINDS_MAX)) dropAll(old);
    this.#kinds = all;
    return kind;
  }

  /** Keeps `max` sandboxes waiting, all as they would be built now. */
  #build(kind: Kind, max: number): void {
    const shape = shapeOf(kind.parts, this.#setup);
    const isGood = (it: Waiting) => isDeepStrictEqual(it.shape, shape) && (!it.isBuilt || isMasked(it));
    for (const old of kind.ready.filter((it) => !isGood(it))) drop(kind, old);
    // Without its directory it would fail to start, again and again.
    if (shape.cwdIs === '' || hides(shape)) return;
    while (kind.ready.length < max && this.#buildOne(kind, shape));
  }

  /** Starts to build one; tells whether that succeeded. */
  #buildOne(kind: Kind, shape: Shape): boolean {
    const begun = beginWaiting(shape, this.#setup, this.#powers);
    const lose = () => drop(kind, begun);
    for (const event of ['exit', 'error']) begun.child.once(event, lose);
    begun.admitted.catch(lose);
    if (begun.child.pid === undefined) begun[Symbol.dispose]();
    else kind.ready.push(begun);
    return begun.child.pid !== undefined;
  }
}

/** Ends a sandbox if it still waits. */
function drop(kind: Kind, waiting: Waiting): void {
  const at = kind.ready.indexOf(waiting);
  if (at < 0) return;
  kind.ready.splice(at, 1);
  end(waiting);
}

function dropAll(kind: Kind): void {
  for (const it of kind.ready.splice(0)) end(it);
}

/** Sends the words; if one of the masks is gone, ends the sandbox and gives undefined. */
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
  // A sandbox that ended while this function waited sends no further 'exit' event.
  if (begun.child.exitCode !== null || begun.child.signalCode !== null) return end(begun);
  if (begun.isBuilt) return tell(begun, words);
  // The caller ends it.
  return signal.aborted ? begun : end(begun);
}

function end(begun: Waiting): undefined {
  // Without its pipe it ends by itself, in case bubblewrap has not reported yet which process to kill.
  begun.line.destroy();
  begun.status.kill(begun.child);
  begun[Symbol.dispose]();
}
