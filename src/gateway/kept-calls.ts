/** A session's memory of its calls: running ones, and the most recent of those that ended. */
import { isDeepStrictEqual } from 'node:util';
import type { CallRecord, CallStatus, ToolResult } from '../base/call.ts';
import type { Limits } from '../base/limits.ts';
import { heldBytes } from '../base/text/held-bytes.ts';
import type { Call, CheckedCall } from '../pipeline/stage.ts';
import type { StageTimes } from '../pipeline/stage-times.ts';
import { ForgottenIds } from './forgotten-ids.ts';

/** The kept part of every call. */
export interface RetainedCall {
  call: Pick<Call, 'id' | 'name' | 'rawInput' | 'options' | 'toolset'>;
  readonly record: CallRecord;
  /** Never rejects. */
  readonly result: Promise<ToolResult>;
}

/** A running call and its outcome so far. */
export interface KeptCall extends RetainedCall {
  call: Call;
  readonly times: StageTimes;
  /** The call as the last stage that found out more of it saw it. */
  reached?: CheckedCall;
  /** Approximate bytes of memory that its result takes. */
  heldBytes?: number;
}

export interface CallFilter {
  readonly status?: CallStatus | undefined;
  readonly tool?: string | undefined;
  readonly limit: number;
  readonly cursor?: string | undefined;
}

export interface CallPage {
  calls: CallRecord[];
  cursor?: string;
}

/** Ended calls that share one limit; the oldest are dropped first. */
interface CallShare {
  /** Ended calls with the bytes of their inputs and results. */
  readonly ended: Map<RetainedCall, number>;
  /** Kept for the lifetime of the map: a new iterator would have to skip the slots of all deleted entries. */
  readonly oldest: MapIterator<[RetainedCall, number]>;
  bytes: number;
  readonly callsMax: number;
  readonly bytesMax: number;
}

/** Share of the memory at which the session counts as full, which leaves room for calls that still run. */
const UNHEARD_SHARE = 0.5;

export class KeptCalls {
  readonly #calls = new Map<string, RetainedCall>();
  readonly #open = new Map<string, KeptCall>();
  readonly #forgotten: ForgottenIds;
  readonly #clientShare: CallShare;
  /** Calls of programs; they have their own share, so they can't push out the client's calls. */
  readonly #programShare: CallShare;
  /** What ended since the client disconnected; undefined while a client is connected. */
  #unheard: { calls: number; bytes: number } | undefined;

  readonly #forgets: boolean;

  /** `forgets`: ended calls are not kept, since no request can name them. */
  constructor(limits: Limits, { forgets }: { readonly forgets: boolean }) {
    this.#forgets = forgets;
    const shareOf = (callsMax: number, bytesMax: number): CallShare => {
      const ended = new Map<RetainedCall, number>();
      return { ended, oldest: ended.entries(), bytes: 0, callsMax, bytesMax };
    };
    this.#clientShare = shareOf(limits.sessionCallsKept, limits.sessionResultBytesKept);
    this.#programShare = shareOf(limits.sessionChildCallsKept, limits.sessionChildResultBytesKept);
    this.#forgotten = new ForgottenIds(limits.sessionCallIdsKept);
  }

  add(kept: KeptCall): void {
    this.#calls.set(kept.call.id, kept);
    this.#open.set(kept.call.id, kept);
  }

  get(callId: string): RetainedCall | undefined {
    return this.#calls.get(callId);
  }

  underWay(callId: string): KeptCall | undefined {
    return this.#open.get(callId);
  }

  /** All running calls. */
  get open(): KeptCall[] {
    return [...this.#open.values()];
  }

  /** The client's ended calls, oldest first, with the bytes of their inputs and results. */
  get endedCalls(): Iterable<[Pick<RetainedCall, 'record' | 'call'>, number]> {
    return this.#clientShare.ended;
  }

  /** All remembered calls, oldest first. */
  get all(): Iterable<RetainedCall> {
    return this.#calls.values();
  }

  get records(): CallRecord[] {
    return [...this.#calls.values()].map(({ record }) => record);
  }

  /** Whether a call that is no longer remembered used the id. */
  hasForgotten(callId: string): boolean {
    return this.#forgotten.has(callId);
  }

  /** The client disconnected and may come back. */
  leave(): void {
    this.#unheard ??= { calls: 0, bytes: 0 };
  }

  comeBack(): void {
    this.#unheard = undefined;
  }

  /** Whether so much ended without a client that more would push it out of memory. */
  get isFull(): boolean {
    if (!this.#unheard) return false;
    const { callsMax, bytesMax } = this.#clientShare;
    return this.#unheard.calls > callsMax * UNHEARD_SHARE || this.#unheard.bytes > bytesMax * UNHEARD_SHARE;
  }

  /** A page of calls: `others` first, newest last; `cursor` is the last call of the previous page. */
  list(filter: CallFilter, others: readonly CallRecord[]): CallPage {
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

  /** Moves a call that has its result to the ended ones; older calls are dropped to make room. */
  addEnded(done: KeptCall): void {
    const { call } = done;
    const retained: RetainedCall = done;
    const { id, name, rawInput, options, toolset } = call;
    this.#open.delete(id);
    if (this.#forgets) return void this.#calls.delete(id);
    // Drops the controller, closures and findings of the stages, which take several times as much memory.
    retained.call = { id, name, rawInput, options, toolset };
    delete done.reached;
    const bytes = heldBytes(call.rawInput) + (done.heldBytes ?? 0);
    const share = isChild(call) ? this.#programShare : this.#clientShare;
    share.ended.set(retained, bytes);
    share.bytes += bytes;
    // Results of child calls went to their program.
    if (this.#unheard && share === this.#clientShare) {
      this.#unheard.calls += 1;
      this.#unheard.bytes += bytes;
    }
    while ((share.ended.size > share.callsMax || share.bytes > share.bytesMax) && share.ended.size > 1) {
      const [old, itsBytes] = share.oldest.next().value as [RetainedCall, number];
      share.ended.delete(old);
      share.bytes -= itsBytes;
      this.#calls.delete(old.call.id);
      this.#forgotten.add(old.call.id, isChild(old.call) || isHarmless(old.call));
    }
  }
}

/** Whether a program made the call; its id is ours, so no client repeats it. */
const isChild = ({ options }: Pick<Call, 'options'>): boolean => options.parentCallId !== undefined;

const isHarmless = ({ toolset, name, options }: RetainedCall['call']): boolean =>
  options.preview === true || (toolset.get(name)?.tool.tier ?? 'read_only') === 'read_only';

/** Whether the result of one call answers the other; a preview never answers the call itself. */
export const isSameCall = (a: Pick<Call, 'name' | 'rawInput' | 'options'>, b: typeof a): boolean =>
  a.name === b.name &&
  (a.options.preview === true) === (b.options.preview === true) &&
  isDeepStrictEqual(a.rawInput, b.rawInput);
