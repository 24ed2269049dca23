/** One client's session: its tools, its policy, its calls. A call id is used once: the same again gets the first result, or CONFLICT. */
import { isDeepStrictEqual } from 'node:util';
import type {
  CallOptions,
  CallRecord,
  CallState,
  Denial,
  Effect,
  FileChange,
  ResultMetadata,
  ToolResult,
  Withheld,
} from '../call.ts';
import { ToolError, toToolError, type WireError } from '../errors.ts';
import type { Limits } from '../limits.ts';
import { askedBy } from '../pipeline/approve.ts';
import { newOutcome } from '../pipeline/outcome.ts';
import type { Call, Handler, NamedTool, Toolset } from '../pipeline/stage.ts';
import { verdictOf } from '../pipeline/verdict.ts';
import type { Policy } from '../policy/schema.ts';
import type { Powers } from '../powers.ts';
import { redactText, redactValue } from '../redact.ts';
import { parked, required } from '../store/answer.ts';
import { type Filter, type KeptCall, KeptCalls, type Page } from './kept-calls.ts';

export interface SessionOptions {
  readonly id: string;
  /** Shared by sessions that share what a person said for the session. */
  readonly name?: string | undefined;
  readonly secret: string;
  readonly role: 'agent' | 'operator';
  readonly principal: string;
  readonly client: string;
  readonly workspace: string;
  /** The daemon's workspace that holds it. */
  readonly root: string;
  /** Gives the one in force now: it may be loaded anew while the session goes on. */
  policy(): Policy;
  readonly toolset: Toolset;
  readonly run: Handler;
  readonly limits: Limits;
  readonly powers: Powers;
  /** Of calls beyond what is in memory here. */
  readonly keeping: CallKeeping;
  /** Whether nobody can ask for its calls once they ended: their ids are its face's own, and no request names them. */
  readonly forgets?: boolean;
  /** Whether the client reads slower than results come. */
  congested(): boolean;
  /** Told of every change of a call's state. */
  onUpdate(call: Call, state: CallState): void;
  /** Told of output while it comes; gives a promise where more had better wait until it settles. */
  onOutput(call: Call, stream: 'stdout' | 'stderr', data: Uint8Array): Promise<void> | undefined;
}

/** What is known of calls beyond their session's memory. */
export interface CallKeeping {
  /** The result of the call that had this id before, or why the id can't be used; undefined where it is free. */
  earlier(call: Call, isForgotten: boolean): Promise<ToolResult> | ToolError | undefined;
  /** A call is taken; it may set its `onStart`. Throws QUEUE_FULL, STORE_FAILED: then it does not run. */
  begin(kept: KeptCall): void;
  ended(kept: KeptCall): void;
}

export class Session {
  readonly options: Omit<SessionOptions, 'policy'>;
  /** In force now; another one where its client came back. */
  policy: () => Policy;
  readonly #calls: KeptCalls;
  #closing: ToolError | undefined;

  constructor(options: SessionOptions) {
    this.options = options;
    this.policy = options.policy;
    this.#calls = new KeptCalls(options.limits, { forgets: options.forgets === true });
  }

  /** Runs a call to its result; never rejects. `onState` is told of its states, as onUpdate is. */
  call(
    name: string,
    rawInput: unknown,
    options: CallOptions,
    onState?: (state: CallState) => void,
  ): Promise<ToolResult> {
    const { powers } = this.options;
    const id = options.callId ?? powers.uuid();
    const known = this.#calls.get(id);
    if (known && isSame(known.call, { name, rawInput, options })) return known.result;
    const call = this.#newCall(id, name, rawInput, options);
    const earlier = this.#earlier(call, known !== undefined);
    if (earlier instanceof ToolError)
      return Promise.resolve(this.#toResult(call, powers.monotonicMs(), { error: earlier }));
    if (earlier) return earlier;
    return this.#take(call, onState);
  }

  /** Runs a tool that no session has, under the same stages; never rejects. */
  callInternal(named: NamedTool, input: unknown): Promise<ToolResult> {
    const { name } = named.tool;
    const call = this.#newCall(this.options.powers.uuid(), name, input, {});
    // The same call, not a copy: its output is told of this one.
    return this.#take(Object.assign(call, { toolset: new Map([[name, named]]) }));
  }

  #take(call: Call, onState?: (state: CallState) => void): Promise<ToolResult> {
    const { powers } = this.options;
    const { id } = call;
    const record: CallRecord = {
      callId: id,
      tool: redactText(call.name),
      sessionId: this.options.id,
      createdAt: new Date(powers.now()).toISOString(),
      state: { status: 'queued', position: 0 },
    };
    call.announce = (state) => {
      record.state = state;
      this.options.onUpdate(call, state);
      onState?.(state);
    };
    const { promise, resolve } = Promise.withResolvers<ToolResult>();
    const kept: KeptCall = { call, record, result: promise };
    this.#calls.add(kept);
    void this.#run(kept).then(resolve);
    return promise;
  }

  /** The result of a call that is not to run. */
  refusal(name: string, rawInput: unknown, { options, error }: { options: CallOptions; error: ToolError }): ToolResult {
    const { powers } = this.options;
    const call = this.#newCall(options.callId ?? powers.uuid(), name, rawInput, options);
    return this.#toResult(call, powers.monotonicMs(), { error });
  }

  /** Whether there was such a call still to cancel. */
  cancel(callId: string): boolean {
    return this.abort(
      callId,
      new ToolError('CANCELLED', 'the call was cancelled by its client', { details: { by: 'caller' } }),
    );
  }

  /** Ends a call that waits for a person, and leaves its question open; false where it doesn't wait for one. */
  park(callId: string): boolean {
    const { call, record } = this.#calls.underWay(callId) ?? {};
    if (!call || record?.state.status !== 'blocked-on-user') return false;
    return this.abort(callId, required({ approvalId: record.state.approvalId, tool: call.name, ...askedBy(call) }));
  }

  /** Ends a call for `reason`; false where it was over, or never was. A time limit that passes while a person is awaited says so. */
  abort(callId: string, reason: ToolError): boolean {
    const kept = this.#calls.underWay(callId);
    if (!kept || kept.record.result) return false;
    kept.call.controller.abort(whileAsked(kept, reason));
    return true;
  }

  /** Its client went, and may come back. */
  leave(): void {
    this.#calls.leave();
  }

  comeBack(): void {
    this.#calls.comeBack();
  }

  /** Whether so much ended unheard that more would push it out of memory: what waits for a place had better wait on. */
  get isFull(): boolean {
    return this.#calls.isFull;
  }

  get(callId: string): CallRecord | undefined {
    return this.#calls.get(callId)?.record;
  }

  /** Its calls under way, and what each is about to do or does, as far as that is known. */
  get underWay(): { record: CallRecord; effects: readonly Effect[] }[] {
    return this.#calls.open.map(({ call, record }) => ({
      record,
      effects: call.decided?.effects ?? call.checked?.effects ?? [],
    }));
  }

  /** The session's memory of its calls. */
  get remembered(): Pick<KeptCalls, 'endedCalls' | 'records'> {
    return this.#calls;
  }

  /** Behind `others`, newest last; `cursor` is the last call of the page before. */
  list(filter: Filter, others: readonly CallRecord[]): Page {
    return this.#calls.list(filter, others);
  }

  /** Answers further calls with `reason`. */
  refuse(reason: ToolError): void {
    this.#closing ??= reason;
  }

  /** Ends all calls but detached ones for `reason` and refuses further ones; settles when the last is over. */
  async end(reason: ToolError): Promise<void> {
    this.refuse(reason);
    const open = this.#calls.open.filter(({ call }) => !call.options.detached);
    for (const { call } of open) call.controller.abort(reason);
    await Promise.all(open.map(({ result }) => result));
  }

  /** What stands for the call because of what its id was used for. */
  #earlier(call: Call, isUsed: boolean): Promise<ToolResult> | ToolError | undefined {
    const { id } = call;
    const isForgotten = this.#calls.hasForgotten(id);
    const earlier =
      call.options.callId === undefined || isUsed ? undefined : this.options.keeping.earlier(call, isForgotten);
    if (earlier || (!isUsed && !isForgotten)) return earlier;
    const why = isUsed ? 'was used for another call' : 'was used, and its result is forgotten';
    return new ToolError('CONFLICT', `call id ${id} ${why}`, { layer: 'daemon' });
  }

  #newCall(id: string, name: string, rawInput: unknown, options: CallOptions): Call {
    const { id: sessionId, name: sessionName, principal, workspace, root, toolset, onOutput, congested } = this.options;
    const policyNow = () => this.policy();
    const call: Call = {
      ...{
        id,
        sessionId,
        principal,
        workspace,
        root,
        toolset,
        rawInput,
        options,
        name,
        warnings: [],
        outcome: newOutcome(),
      },
      ...(sessionName !== undefined && { sessionName }),
      policy: policyNow(),
      policyNow,
      controller: new AbortController(),
      announce() {},
      congested,
      output: (stream, data) => onOutput(call, stream, data),
    };
    return call;
  }

  async #run(kept: KeptCall): Promise<ToolResult> {
    const { powers, run, keeping } = this.options;
    const { call } = kept;
    const startedAt = powers.monotonicMs();
    const { timeoutMs } = call.options;
    const deadline =
      timeoutMs === undefined
        ? undefined
        : powers.after(timeoutMs, () => call.controller.abort(whileAsked(kept, late(call, timeoutMs))));
    let result: ToolResult;
    try {
      if (this.#closing) throw this.#closing;
      keeping.begin(kept);
      call.announce({ status: 'queued', position: 0 });
      result = this.#toResult(call, startedAt, { data: await run(call) });
    } catch (thrown) {
      const error = toToolError(thrown);
      if (error.code === 'INTERNAL')
        powers.log.error({ error: error.cause, callId: redactText(call.id) }, 'a call failed inside');
      result = this.#toResult(call, startedAt, { error });
    } finally {
      deadline?.cancel();
    }
    kept.record.result = result;
    kept.record.tool = result.tool;
    kept.record.state = endOf(result);
    // Before anybody hears of it: what was told stays so, whatever happens to the daemon.
    keeping.ended(kept);
    call.announce(kept.record.state);
    this.#calls.ended(kept);
    return result;
  }

  #toResult(call: Call, startedAt: number, end: { data: unknown } | { error: ToolError }): ToolResult {
    const { powers } = this.options;
    const durationMs = round(powers.monotonicMs() - startedAt);
    const tool = call.checked?.tool.name ?? call.toolset.get(call.name)?.tool.name ?? redactText(call.name);
    const { usage, hostPid, queuedMs, cached, denied, withheld } = call.outcome;
    const warnings = [...call.warnings, ...call.outcome.warnings];
    const okVerdict = usage?.scratchFull === true ? 'file' : 'ok';
    const verdict = 'error' in end ? verdictOf(end.error, usage?.verdict) : okVerdict;
    const metadata: ResultMetadata = {
      durationMs,
      queuedMs: round(queuedMs),
      cached,
      retriesAttempted: call.retriesAttempted ?? 0,
      ...(call.approvalGranted && { approvalGranted: true }),
      timestamp: new Date(powers.now() - durationMs).toISOString(),
      ...(call.checked && { tier: call.checked.tier }),
      ...(hostPid !== undefined && { hostPid }),
      ...(usage?.truncatedBytes !== undefined && {
        truncated: { bytesTotal: usage.truncatedBytes, ...(call.logRef !== undefined && { ref: call.logRef }) },
      }),
      ...(usage?.filesChanged && { filesChanged: redactValue(usage.filesChanged) as FileChange[] }),
      ...(usage?.filesChangedTotal !== undefined && { filesChangedTotal: usage.filesChangedTotal }),
      ...(denied && { denied: redactValue(denied) as Denial[] }),
      ...(withheld && { withheld: redactValue(withheld) as Withheld }),
      undo: usage?.undo ?? 'none',
      resources: {
        cpuMs: round(usage?.cpuMs ?? 0),
        ...(usage?.peakBytes !== undefined && { peakBytes: usage.peakBytes }),
        outputBytes: usage?.outputBytes ?? 0,
        ...(usage?.processes !== undefined && { processes: usage.processes }),
        verdict,
        enforcedBy: usage?.enforcedBy ?? 'not started',
      },
      ...(call.costUsd !== undefined && { costUsd: call.costUsd }),
      ...(warnings.length > 0 && { warnings }),
    };
    const base = { callId: call.id, tool, metadata };
    return 'error' in end
      ? { ...base, success: false, error: redactValue(end.error.toWire()) as WireError }
      : { ...base, success: true, data: end.data };
  }
}

/** Whether one's result answers the other: that of a preview is none of the call itself. */
const isSame = (a: Pick<Call, 'name' | 'rawInput' | 'options'>, b: typeof a): boolean =>
  a.name === b.name &&
  (a.options.preview === true) === (b.options.preview === true) &&
  isDeepStrictEqual(a.rawInput, b.rawInput);

function endOf(result: ToolResult): CallState {
  if (result.success) return { status: 'done' };
  const { code, details } = result.error;
  if (code === 'CANCELLED') return { status: 'cancelled' };
  return { status: code === 'APPROVAL_DENIED' && !details?.headless ? 'rejected-by-user' : 'error' };
}

const round = (ms: number): number => Math.round(ms * 1000) / 1000;

/** The question of a call that ran out of time can still be answered, for the same call made again. */
function whileAsked({ record, call }: KeptCall, reason: ToolError): ToolError {
  if (reason.code !== 'TIMEOUT' || record.state.status !== 'blocked-on-user') return reason;
  const { approvalId } = record.state;
  return parked({ approvalId, tool: call.name, ...askedBy(call) }, Number(reason.extras.details?.limit));
}

function late(call: Call, limit: number): ToolError {
  return new ToolError('TIMEOUT', `\`${call.name}\` was not done within ${limit} ms, as its caller asked`, {
    details: { limit, used: limit, enforcedBy: 'timer' },
  });
}
