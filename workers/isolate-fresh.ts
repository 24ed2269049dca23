/** Isolates with our wrapper in them, made while nobody waits; each is given away once and never comes back. */
import { Script } from 'node:vm';
import ivm from 'isolated-vm';
import type { Limits } from '../src/limits.ts';
import { type Grant, type GuestBounds, guestScript } from './isolate-guest.ts';

/** The one function that an isolate has of us: an operation and strings, all of them a stranger's. Nothing goes back. */
export type Receive = (operation: unknown, a: unknown, b: unknown, c: unknown) => void;

/** What is told to the guest: texts, and a function of its own isolate. */
type Word = string | undefined | ivm.Dereference<unknown>;

export interface Fresh {
  readonly memoryMb: number;
  readonly isolate: ivm.Isolate;
  readonly context: ivm.Context;
  /** Says who hears the guest, and gives the way to tell it something, which rejects when the isolate ends. */
  connect(receive: Receive): (...words: Word[]) => Promise<unknown>;
}

type Given = (...given: unknown[]) => unknown;

export class FreshIsolates {
  readonly #limits: Limits;
  readonly #script = guestScript();
  readonly #cachedData = compiled(this.#script);
  #prepared: Fresh | undefined;

  constructor(limits: Limits) {
    this.#limits = limits;
  }

  /** Makes the next one ready; most programs want as much memory as the one before. Throws what the engine throws. */
  prepare(memoryMb: number): void {
    this.#prepared = this.#make(memoryMb);
  }

  take(memoryMb: number): Fresh {
    const prepared = this.#prepared;
    this.#prepared = undefined;
    if (prepared?.memoryMb === memoryMb) return prepared;
    prepared?.isolate.dispose();
    return this.#make(memoryMb);
  }

  /** In this thread, which waits for it anyway: nothing of a program's runs yet. */
  #make(memoryMb: number): Fresh {
    const { codeLogsMax: logs, codeLogChars: logChars, codeTimersMax: timers } = this.#limits;
    const bounds: GuestBounds = { logs, logChars, timers };
    const isolate = new ivm.Isolate({ memoryLimit: memoryMb, onCatastrophicError: () => process.abort() });
    const context = isolate.createContextSync();
    const wrapper = isolate.compileScriptSync(this.#script, { cachedData: this.#cachedData });
    const guest = wrapper.runSync(context, { reference: true }) as ivm.Reference<Given>;
    let hear: Receive | undefined;
    // A function without a way back: no reference to anything of ours is in there.
    const send = new ivm.Callback<Receive>((...words) => hear?.(...words), { ignored: true });
    const deliver = guest.applySync(undefined, [send, JSON.stringify(bounds)], { result: { reference: true } });
    return {
      memoryMb,
      isolate,
      context,
      connect(receive) {
        hear = receive;
        return (...words) => (deliver as ivm.Reference<Given>).apply(undefined, words);
      },
    };
  }
}

/**
 * The wrapper as code for the engine, with all that it runs for a program: this process has the same engine. Where it did not,
 * the isolate would refuse it and compile the source.
 */
function compiled(source: string): ivm.ExternalCopy<ArrayBuffer> {
  const script = new Script(source);
  const guest = script.runInNewContext() as (send: () => void, bounds: string) => Given;
  const bounds: GuestBounds = { logs: 0, logChars: 0, timers: 0 };
  const grant: Grant = { tools: [''], resultChars: 0 };
  guest(() => {}, JSON.stringify(bounds))('run', 'return 1', undefined, JSON.stringify(grant));
  const { buffer, byteOffset, length } = script.createCachedData();
  return new ivm.ExternalCopy(buffer.slice(byteOffset, byteOffset + length) as ArrayBuffer);
}
