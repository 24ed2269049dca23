/** The output of calls, readable for their own session and for operators. */
import type { CallRecord, CallState, NamedCall } from '../base/call.ts';
import { RpcError } from '../base/errors.ts';
import type { Limits } from '../base/limits.ts';
import type { Powers } from '../base/powers.ts';
import type { Call } from '../pipeline/pipeline.ts';
import type { CallLog, LogOwner, StreamName } from '../store/call-log.ts';
import type { AppendedChunk, ResultLog } from '../store/result-log.ts';
import type { Params } from '../wire/protocol/messages.ts';
import type { Session } from './session.ts';

export interface ResultsOptions {
  readonly log: ResultLog;
  readonly limits: Limits;
  readonly powers: Powers;
}

type AfterSeq = Extract<Params<'results.read'>, { callId: string }>;
type AtOffset = Extract<Params<'results.read'>, { ref: string }>;

/** Size of the pieces of a stored text, in bytes; a log is read in whole pieces. */
const PIECE_BYTES = 64 * 1024;

const ownerOf = ({ sessionId, id: callId, principal, options }: Call): LogOwner => ({
  sessionId,
  callId,
  storedFor: principal,
  ...(options.detached && { principal }),
});
const keyOf = ({ sessionId, callId }: LogOwner): string => `${sessionId}\0${callId}`;
const isEnd = ({ status }: CallState): boolean =>
  status !== 'queued' && status !== 'in-progress' && status !== 'blocked-on-user';

const mayRead = ({ options: { role, id, principal, delegation } }: Session, owner: LogOwner): boolean =>
  role === 'operator' || owner.sessionId === id || (!delegation && owner.principal === principal);

export class Results {
  readonly #options: ResultsOptions;
  /** Wakes the readers that wait for more of a call, by call. */
  readonly #readersByCall = new Map<string, Set<() => void>>();

  constructor(options: ResultsOptions) {
    this.#options = options;
  }

  /** Appends output of a call, with secrets already removed, and wakes its readers. */
  output(call: Call, stream: StreamName, data: Uint8Array): AppendedChunk {
    const owner = ownerOf(call);
    const taken = this.#options.log.append(owner, stream, data);
    call.logRef = taken.ref;
    this.#wake(owner);
    return taken;
  }

  /** Stores a text as output for all sessions of its principal and returns its ref. The secrets in it must already be removed. */
  keep({ options: { id, principal, powers } }: Session, text: string): string {
    const { log } = this.#options;
    const owner: LogOwner = { sessionId: id, callId: powers.uuid(), principal, storedFor: principal };
    const bytes = Buffer.from(text);
    let ref = '';
    for (let at = 0; at < bytes.length; at += PIECE_BYTES)
      ref = log.append(owner, 'stdout', bytes.subarray(at, at + PIECE_BYTES)).ref;
    log.end(owner, { status: 'done' });
    return ref;
  }

  /** Handles a state change of a call; the final state closes its log if it had output. */
  update(call: Call, state: CallState): void {
    if (!isEnd(state)) return;
    if (call.logRef !== undefined) this.#options.log.end(ownerOf(call), state);
    this.#wake(ownerOf(call));
  }

  /**
   * Answers `results.read`. `recordOf` finds a call that the session may see. Throws RpcError INVALID_PARAMS, the same for output that is
   * unknown, forgotten or belongs to somebody else.
   */
  async read(
    session: Session,
    params: Params<'results.read'>,
    recordOf: (named: NamedCall) => CallRecord | undefined,
  ): Promise<object> {
    try {
      if ('ref' in params) return await this.#readAt(session, params);
      return await this.#readAfter(session, params, recordOf({ callId: params.callId, of: params.session }));
    } catch (error) {
      // The log was dropped while it was read.
      if ((error as NodeJS.ErrnoException).code === 'ENOENT')
        throw this.#unknown('ref' in params ? params.ref : params.callId);
      throw error;
    }
  }

  /** Owners of kept output, newest first. */
  owners(): Promise<LogOwner[]> {
    return this.#options.log.owners();
  }

  async #readAt(session: Session, { ref, offset, limit }: AtOffset): Promise<object> {
    const { log, limits } = this.#options;
    const found = await log.byRef(ref);
    if (!found || !mayRead(session, found.owner)) throw this.#unknown(ref);
    if (found.owner.sessionId !== session.options.id) session.options.untrusted.carry();
    const { bytesTotal, state, cut } = await found.extent();
    const data = await found.bytesAt(offset, Math.min(limit, limits.resultPageBytesMax));
    const eof = state !== undefined && offset + data.length >= bytesTotal;
    return { ref, offset, data, bytesTotal, eof, cut };
  }

  async #readAfter(session: Session, params: AfterSeq, record: CallRecord | undefined): Promise<object> {
    const { powers, limits, log } = this.#options;
    const { callId, afterSeq } = params;
    const { role, id } = session.options;
    const isOthers = role !== 'operator' && (params.session ?? id) !== id;
    if (!record && isOthers) throw this.#unknown(callId);
    const sessionId = record?.sessionId ?? (role === 'operator' ? params.session : id);
    const until = powers.monotonicMs() + Math.min(params.waitMs, limits.resultWaitMs);
    for (;;) {
      // Subscribes before reading, so that no change is missed in between.
      using change = this.#nextChange({ sessionId: sessionId ?? '', callId });
      const state = record?.state;
      const found = await log.ofCall(callId, sessionId);
      if (!found && !state) throw this.#unknown(callId);
      const page = await this.#page(found, afterSeq, state);
      const leftMs = until - powers.monotonicMs();
      if (page.entries.length > 0 || page.eof || leftMs <= 0) return { callId, ...page };
      await change.within(leftMs);
    }
  }

  async #page(log: CallLog | undefined, afterSeq: number, known: CallState | undefined) {
    if (!log) return { entries: [], seq: afterSeq, state: known, eof: known !== undefined && isEnd(known) };
    const { seq: last, state: logged, cut } = await log.extent();
    const entries = await log.entriesAfter(afterSeq, this.#options.limits.resultPageBytesMax);
    const seq = entries.at(-1)?.seq ?? afterSeq;
    const state = known ?? logged;
    return { entries, seq, state, eof: state !== undefined && isEnd(state) && seq >= last, cut };
  }

  #unknown(name: string): RpcError {
    const { resultLogKeptMs } = this.#options.limits;
    return new RpcError(
      'INVALID_PARAMS',
      `this session has no output ${name}, or it is no longer kept: outputs are kept for ${Math.round(resultLogKeptMs / 1000)} s, or less if much output follows`,
    );
  }

  #wake(owner: LogOwner): void {
    if (this.#readersByCall.size === 0) return;
    for (const wake of this.#readersByCall.get(keyOf(owner)) ?? []) wake();
  }

  #nextChange(owner: LogOwner): Disposable & { within(ms: number): Promise<void> } {
    const key = keyOf(owner);
    const { promise, resolve } = Promise.withResolvers<void>();
    const all = this.#readersByCall.get(key) ?? new Set();
    this.#readersByCall.set(key, all.add(resolve));
    return {
      within: async (ms) => {
        const timer = this.#options.powers.after(ms, resolve);
        await promise;
        timer.cancel();
      },
      [Symbol.dispose]: () => {
        all.delete(resolve);
        if (all.size === 0) this.#readersByCall.delete(key);
      },
    };
  }
}
