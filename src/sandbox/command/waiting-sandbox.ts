/**
 * A sandbox for the next command, built when the one before it is over: what starts bubblewrap, and what that builds, are four fifths of what a
 * short command takes. Nothing of any command has been in it. Where its line ends before all words of one came, it runs none, and ends.
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

/** Commands, and those of git's tools, which see a read-only workspace, take turns. */
const KINDS_MAX = 2;

/** How many of the newest kind wait: where one command comes right behind the other, the next one's is built while this one's runs. */
const READY_MAX = 2;

interface Kind {
  readonly parts: Parts;
  /** The oldest first. */
  readonly ready: Waiting[];
}

export class WaitingSandbox {
  readonly #setup: CommandSetup;
  readonly #powers: Powers;
  /** Of the last commands, the newest first: the next one is likely to be like one of them. */
  #kinds: Kind[] = [];
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
    const { cwd, workspace, readOnly = false, asOwner = false, masks, bounds, home, sockets } = request;
    const own = { ...(home !== undefined && { home }), ...(sockets && { sockets }) };
    const kind = this.#kindOf({ cwd, workspace, readOnly, asOwner, masks, bounds, ...own });
    const [begun] = kind.ready;
    if (!begun || !isDeepStrictEqual(begun.shape, shape)) return undefined;
    kind.ready.shift();
    return begun.isBuilt ? tell(begun, words) : tellOnceBuilt(begun, words, request.signal);
  }

  /** Builds the next ones in a while, instead of when that was said before. */
  prepareIn(delayMs: number): void {
    this.#timer?.cancel();
    this.#timer = this.#powers.after(delayMs, () => this.prepare());
  }

  /** Builds what does not wait already. It takes a millisecond or two, in which this thread does nothing else. */
  prepare(): void {
    this.#timer?.cancel();
    for (const [at, kind] of this.#kinds.entries()) {
      try {
        this.#build(kind, at === 0 ? READY_MAX : 1);
      } catch {
        // SANDBOX_UNAVAILABLE, EMFILE: the next command tries again, and says why not.
      }
    }
  }

  /** Ends those that wait. */
  [Symbol.dispose](): void {
    this.#timer?.cancel();
    for (const kind of this.#kinds) dropAll(kind);
  }

  /** The newest from now on. */
  #kindOf(parts: Parts): Kind {
    const known = this.#kinds.find((it) => isDeepStrictEqual(it.parts, parts));
    const kind = known ?? { parts, ready: [] };
    const all = [kind, ...this.#kinds.filter((it) => it !== known)];
    for (const old of all.splice(KINDS_MAX)) dropAll(old);
    this.#kinds = all;
    return kind;
  }

  /** Has `max` wait that are as they would be built now. */
  #build(kind: Kind, max: number): void {
    const shape = shapeOf(kind.parts, this.#setup);
    const isGood = (it: Waiting) => isDeepStrictEqual(it.shape, shape) && (!it.isBuilt || isMasked(it));
    for (const old of kind.ready.filter((it) => !isGood(it))) drop(kind, old);
    // Without its directory it would not come up, again and again.
    if (shape.cwdIs === '' || hides(shape)) return;
    while (kind.ready.length < max && this.#buildOne(kind, shape));
  }

  /** Whether it could be begun. */
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

/** Ends one that waits, where it still does. */
function drop(kind: Kind, waiting: Waiting): void {
  const at = kind.ready.indexOf(waiting);
  if (at < 0) return;
  kind.ready.splice(at, 1);
  end(waiting);
}

function dropAll(kind: Kind): void {
  for (const it of kind.ready.splice(0)) end(it);
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
