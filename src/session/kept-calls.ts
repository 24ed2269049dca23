/** The calls that a session remembers: those under way, and the newest of those that ended. */
import type { CallRecord, CallStatus, ToolResult } from '../call.ts';
import { heldBytes } from '../held-bytes.ts';
import type { Limits } from '../limits.ts';
import type { Call } from '../pipeline/stage.ts';
import { ForgottenIds } from './forgotten-ids.ts';

/** What is remembered of a call, whatever became of it. */
export interface Remembered {
  call: Pick<Call, 'id' | 'name' | 'rawInput' | 'options' | 'toolset'>;
  readonly record: CallRecord;
  /** Never rejects. */
  readonly result: Promise<ToolResult>;
}

/** A call that was taken, and what came of it so far. */
export interface KeptCall extends Remembered {
  call: Call;
}

export interface Filter {
  readonly status?: CallStatus | undefined;
  readonly tool?: string | undefined;
  readonly limit: number;
  readonly cursor?: string | undefined;
}

export interface Page {
  calls: CallRecord[];
  cursor?: string;
}

/** Calls that ended and make room for each other only: the first that ended goes first. */
interface Share {
  /** With the bytes of their inputs and results. */
  readonly ended: Map<Remembered, number>;
  /** One iterator for good: a new one would step over the room of all that went before it finds the first. */
  readonly oldest: MapIterator<[Remembered, number]>;
  bytes: number;
  readonly callsMax: number;
  readonly bytesMax: number;
}

/** Of what is remembered: calls that run when it is reached still find room. */
const UNHEARD_SHARE = 0.5;

export class KeptCalls {
  readonly #calls = new Map<string, Remembered>();
  readonly #open = new Map<string, KeptCall>();
  readonly #forgotten: ForgottenIds;
  readonly #own: Share;
  /** Of programs: however many they are, the calls of the client stay. */
  readonly #children: Share;
  /** What ended since its client went; undefined while one is there. */
  #unheard: { calls: number; bytes: number } | undefined;

  readonly #forgets: boolean;

  /** `forgets`: nobody can ask for a call that has ended, nor use its id again. */
  constructor(limits: Limits, { forgets }: { readonly forgets: boolean }) {
    this.#forgets = forgets;
    const shareOf = (callsMax: number, bytesMax: number): Share => {
      const ended = new Map<Remembered, number>();
      return { ended, oldest: ended.entries(), bytes: 0, callsMax, bytesMax };
    };
    this.#own = shareOf(limits.sessionCallsKept, limits.sessionResultBytesKept);
    this.#children = shareOf(limits.sessionChildCallsKept, limits.sessionChildResultBytesKept);
    this.#forgotten = new ForgottenIds(limits.sessionCallIdsKept);
  }

  add(kept: KeptCall): void {
    this.#calls.set(kept.call.id, kept);
    this.#open.set(kept.call.id, kept);
  }

  get(callId: string): Remembered | undefined {
    return this.#calls.get(callId);
  }

  /** One that is under way. */
  underWay(callId: string): KeptCall | undefined {
    return this.#open.get(callId);
  }

  /** Those under way. */
  get open(): KeptCall[] {
    return [...this.#open.values()];
  }

  /** Those of the client that ended, the first one first, with the bytes of their inputs and results. */
  get endedCalls(): Iterable<[Pick<Remembered, 'record'>, number]> {
    return this.#own.ended;
  }

  /** Every id that is remembered. */
  get records(): CallRecord[] {
    return [...this.#calls.values()].map(({ record }) => record);
  }

  /** Whether the id was used by a call that is not remembered any more. */
  hasForgotten(callId: string): boolean {
    return this.#forgotten.has(callId);
  }

  /** Its client went, and may come back. */
  leave(): void {
    this.#unheard ??= { calls: 0, bytes: 0 };
  }

  comeBack(): void {
    this.#unheard = undefined;
  }

  /** Whether so much ended unheard that more would push it out of memory. */
  get isFull(): boolean {
    if (!this.#unheard) return false;
    const { callsMax, bytesMax } = this.#own;
    return this.#unheard.calls > callsMax * UNHEARD_SHARE || this.#unheard.bytes > bytesMax * UNHEARD_SHARE;
  }

  /** Behind `others`, newest last; `cursor` is the last call of the page before. */
  list(filter: Filter, others: readonly CallRecord[]): Page {
    const known = others.filter(({ callId }) => !this.#calls.has(callId));
    const records = [...known, ...[...this.#calls.values()].map(({ record }) => record)];
    const from = filter.cursor === undefined ? 0 : records.findIndex(({ callId }) => callId === filter.cursor) + 1;
    const wanted = records
      .slice(from)
      .filter(({ state, tool }) => (filter.status ?? state.status) === state.status && (filter.tool ?? tool) === tool);
    const page = wanted.slice(0, filter.limit).map(({ result: _, ...record }) => record);
    const last = page.at(-1);
    return { calls: page, ...(wanted.length > page.length && last && { cursor: last.callId }) };
  }

  /** It has its result; others make room for it, never the call itself. */
  ended(done: KeptCall): void {
    const { call } = done;
    const kept: Remembered = done;
    const { id, name, rawInput, options, toolset } = call;
    this.#open.delete(id);
    if (this.#forgets) return void this.#calls.delete(id);
    // Its controller, its closures and what the stages found would stay with it: several times what is needed.
    kept.call = { id, name, rawInput, options, toolset };
    const bytes = heldBytes(call.rawInput) + call.outcome.heldBytes;
    const share = isChild(call) ? this.#children : this.#own;
    share.ended.set(kept, bytes);
    share.bytes += bytes;
    // The results of others went to their program.
    if (this.#unheard && share === this.#own) {
      this.#unheard.calls += 1;
      this.#unheard.bytes += bytes;
    }
    while ((share.ended.size > share.callsMax || share.bytes > share.bytesMax) && share.ended.size > 1) {
      const [old, itsBytes] = share.oldest.next().value as [Remembered, number];
      share.ended.delete(old);
      share.bytes -= itsBytes;
      this.#calls.delete(old.call.id);
      this.#forgotten.add(old.call.id, isChild(old.call) || isHarmless(old.call));
    }
  }
}

/** Its id is ours, and nobody's to repeat. */
const isChild = ({ options }: Pick<Call, 'options'>): boolean => options.parentCallId !== undefined;

const isHarmless = ({ toolset, name, options }: Remembered['call']): boolean =>
  options.preview === true || (toolset.get(name)?.tool.tier ?? 'read_only') === 'read_only';
