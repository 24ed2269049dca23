/** Prepares isolates with our wrapper in idle time; each is used once. */
import { Script } from 'node:vm';
import type ivm from 'isolated-vm';
import type { Limits } from '../../src/base/limits.ts';
import { loadIsolatedVm } from '../../src/base/native-programs.ts';
import { type GuestBounds, guestScript, type ProgramRights } from './program-wrapper.ts';
import { urlParts } from './url-parts.ts';

const addon = loadIsolatedVm();

/** The function of ours in an isolate by which it asks: takes an operation and strings, all untrusted, and returns nothing. */
export type Receive = (operation: unknown, a: unknown, b: unknown, c: unknown) => void;

/** What the guest gets when it is called: texts, and a function of its own isolate. */
type GuestArgument = string | undefined | ivm.Dereference<unknown>;

export interface PreparedIsolate {
  readonly memoryMb: number;
  readonly isolate: ivm.Isolate;
  readonly context: ivm.Context;
  /** Sets the receiver of the guest's messages, and gives the function to send to it, which rejects when the isolate ends. */
  connect(receive: Receive): (...words: GuestArgument[]) => Promise<unknown>;
}

type GuestFunction = (...given: unknown[]) => unknown;

export class PreparedIsolates {
  readonly #limits: Limits;
  readonly #script = guestScript();
  readonly #cachedData = compiled(this.#script);
  #prepared: PreparedIsolate | undefined;

  constructor(limits: Limits) {
    this.#limits = limits;
  }

  /** Prepares the next isolate, with the memory of the last one, which most programs want. Throws the engine's error. */
  prepare(memoryMb: number): void {
    this.#prepared = this.#make(memoryMb);
  }

  take(memoryMb: number): PreparedIsolate {
    const prepared = this.#prepared;
    this.#prepared = undefined;
    if (prepared?.memoryMb === memoryMb) return prepared;
    prepared?.isolate.dispose();
    return this.#make(memoryMb);
  }

  /** Synchronous: this thread would wait anyway, and no code of a program runs yet. */
  #make(memoryMb: number): PreparedIsolate {
    const { codeLogsMax: logs, codeLogChars: logChars, codeTimersMax: timers } = this.#limits;
    const bounds: GuestBounds = { logs, logChars, timers };
    const isolate = new addon.Isolate({ memoryLimit: memoryMb, onCatastrophicError: () => process.abort() });
    const context = isolate.createContextSync();
    const wrapper = isolate.compileScriptSync(this.#script, { cachedData: this.#cachedData });
    const guest = wrapper.runSync(context, { reference: true }) as ivm.Reference<GuestFunction>;
    let hear: Receive | undefined;
    // A function that returns nothing: the isolate gets no reference to our objects.
    const send = new addon.Callback<Receive>((...words) => hear?.(...words), { ignored: true });
    const parts = new addon.Callback(urlParts, { sync: true });
    const deliver = guest.applySync(undefined, [send, parts, JSON.stringify(bounds)], { result: { reference: true } });
    return {
      memoryMb,
      isolate,
      context,
      connect(receive) {
        hear = receive;
        return (...words) => (deliver as ivm.Reference<GuestFunction>).apply(undefined, words);
      },
    };
  }
}

/**
 * The wrapper's code cache, including the functions that it runs for a program. It is valid because this process has
 * the same engine as the isolate, which otherwise would refuse it and compile the source.
 */
function compiled(source: string): ivm.ExternalCopy<ArrayBuffer> {
  const script = new Script(source);
  const guest = script.runInNewContext() as GuestFunction;
  const bounds: GuestBounds = { logs: 0, logChars: 0, timers: 0 };
  const grant: ProgramRights = { tools: [''], resultChars: 0 };
  const deliver = guest(() => {}, urlParts, JSON.stringify(bounds)) as GuestFunction;
  deliver('run', 'return 1', undefined, JSON.stringify(grant));
  const { buffer, byteOffset, length } = script.createCachedData();
  return new addon.ExternalCopy(buffer.slice(byteOffset, byteOffset + length) as ArrayBuffer);
}
