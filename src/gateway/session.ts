/**
 * One client's session: its tools, its policy, its calls. A call id is used once; repeating the same call returns the first result, another
 * call with the id gets CONFLICT.
 */
import type {
  CallOptions,
  CallParent,
  CallRecord,
  CallState,
  Denial,
  Effect,
  FileChange,
  NotKept,
  ResultMetadata,
  ToolResult,
  Withheld,
} from '../base/call.ts';
import { ToolError, type WireError } from '../base/errors.ts';
import type { Limits } from '../base/limits.ts';
import type { Powers } from '../base/powers.ts';
import { redactText, redactValue } from '../base/redact.ts';
import { withSuggestion } from '../base/suggestions.ts';
import { askingRuleOf } from '../pipeline/approve/approve.ts';
import type { WithOpenings } from '../pipeline/doors/openings.ts';
import { waitedOf } from '../pipeline/doors/person-time.ts';
import { failed, type Outcome } from '../pipeline/outcome.ts';
import { type Call, type CheckedCall, effectsOf, type Handler, isJudged, outcomeOf } from '../pipeline/stage.ts';
import { StageTimes } from '../pipeline/stage-times.ts';
import { verdictOf } from '../pipeline/verdict.ts';
import type { Policy } from '../policy/schema.ts';
import { required } from '../store/approvals/answers.ts';
import type { SessionMark } from '../store/approvals/untrusted-marks.ts';
import type { NamedTool, Toolset } from '../tools/tool.ts';
import { endOf, late, notDetached, whileAsked } from './call-end.ts';
import { accountOf, chainOf, type Delegation, doorsOf } from './delegation/delegation.ts';
import { type CallFilter, type CallPage, isSameCall, type KeptCall, KeptCalls } from './kept-calls.ts';

export interface SessionOptions {
  readonly id: string;
  /** Sessions with the same name share approvals that a person gave for the session. */
  readonly name?: string | undefined;
  readonly secret: string;
  readonly role: 'agent' | 'operator';
  readonly principal: string;
  readonly client: string;
  readonly workspace: string;
  /** The daemon's workspace that contains `workspace`. */
  readonly root: string;
  /** Name of the mode that its hello asked for. */
  readonly mode?: string | undefined;
  /** Set for a session whose authority is another one's, narrowed. */
  readonly delegation?: Delegation<Session> | undefined;
  /** The policy in force now; it may be reloaded while the session is open. */
  policy(): Policy;
  /** The policy with what a person opened for the session, which it does not pass on. */
  readonly withOpenings: WithOpenings;
  readonly toolset: Toolset;
  readonly run: Handler;
  readonly limits: Limits;
  readonly powers: Powers;
  /** Storage of calls beyond this session's memory. */
  readonly keeping: CallKeeping;
  /** Whether its principal has got results that strangers wrote, in this workspace. */
  readonly untrusted: SessionMark;
  /** Whether ended calls are forgotten at once: a front end chose their ids itself, and no request names them. */
  readonly forgets?: boolean;
  /** Whether the client reads more slowly than results arrive. */
  congested(): boolean;
  /** Called on every state change of a call. */
  onUpdate(call: Call, state: CallState): void;
  /** Called with output as it arrives; returns a promise if the sender should wait until it settles. */
  onOutput(call: Call, stream: 'stdout' | 'stderr', data: Uint8Array): Promise<void> | undefined;
}

/** Storage of calls beyond their session's memory. */
export interface CallKeeping {
  /** The result of the earlier call with this id, or why the id can't be used; undefined if it is free. */
  earlierResult(call: Call, isForgotten: boolean): Promise<ToolResult> | ToolError | undefined;
  /**
   * Records a call before it runs; gives what is called before each time that its job is sent. Throws QUEUE_FULL, STORE_FAILED, and the call
   * does not run.
   */
  recordStart(kept: KeptCall): Call['onStart'];
  recordEnd(kept: KeptCall): void;
}

export class Session {
  readonly options: Omit<SessionOptions, 'policy'>;
  /** The policy in force; replaced when the session is resumed. */
  policy: () => Policy;
  readonly #calls: KeptCalls;
  #closing: ToolError | undefined;

  constructor(options: SessionOptions) {
    this.options = options;
    this.policy = options.policy;
    this.#calls = new KeptCalls(options.limits, { forgets: options.forgets === true });
  }

  /** Whether its principal has got a result that strangers wrote, in this workspace. */
  get sawUntrusted(): boolean {
    return this.options.untrusted.has();
  }

  /** Runs a call to its result; never rejects. `onState` receives the same states as onUpdate. */
  call(
    name: string,
    rawInput: unknown,
    options: CallOptions,
    onState?: (state: CallState) => void,
  ): Promise<ToolResult> {
    const { powers } = this.options;
    const id = options.callId ?? powers.uuid();
    const known = this.#calls.get(id);
    if (known && isSameCall(known.call, { name, rawInput, options })) return known.result;
    const call = this.#newCall(id, name, rawInput, options);
    const earlier = this.#earlierResult(call, known !== undefined);
    if (earlier instanceof ToolError)
      return Promise.resolve(this.#toResult(call, powers.monotonicMs(), failed(earlier)));
    if (earlier) {
      this.options.untrusted.carry();
      return earlier;
    }
    return this.#accept(call, onState);
  }

  /** Runs a tool that no session has, through the same stages; never rejects. */
  callInternal(named: NamedTool, input: unknown): Promise<ToolResult> {
    const { name } = named.tool;
    const call = this.#newCall(this.options.powers.uuid(), name, input, {});
    // Changes the call itself, since its output handler refers to this object.
    return this.#accept(Object.assign(call, { toolset: new Map([[name, named]]) }));
  }

  #accept(call: Call, onState?: (state: CallState) => void): Promise<ToolResult> {
    const { powers } = this.options;
    const { id } = call;
    const times = new StageTimes(powers);
    call.enter = (stage) => times.enter(stage);
    const record: CallRecord = {
      callId: id,
      tool: redactText(call.name),
      sessionId: this.options.id,
      createdAt: new Date(powers.now()).toISOString(),
      state: { status: 'queued', position: 0 },
      get stagesMs() {
        return times.spentMs;
      },
    };
    call.announce = (state) => {
      if (state.status === 'blocked-on-user') times.enter('asking');
      if (state.status === 'in-progress') times.enter('running');
      record.state = state;
      this.options.onUpdate(call, state);
      onState?.(state);
    };
    const { promise, resolve } = Promise.withResolvers<ToolResult>();
    const keptCall: KeptCall = { call, times, record, result: promise };
    call.reached = (it) => {
      keptCall.reached = it;
    };
    this.#calls.add(keptCall);
    void this.#run(keptCall).then(resolve);
    return promise;
  }

  /** The result of a call that is refused without running. */
  refusal(name: string, rawInput: unknown, { options, error }: { options: CallOptions; error: ToolError }): ToolResult {
    const { powers } = this.options;
    const call = this.#newCall(options.callId ?? powers.uuid(), name, rawInput, options);
    return this.#toResult(call, powers.monotonicMs(), failed(error));
  }

  /** Cancels a running call; false if there is none with this id. */
  cancel(callId: string): boolean {
    const reason = new ToolError('CANCELLED', 'the call was cancelled by its client', { details: { by: 'caller' } });
    return this.abort(callId, reason);
  }

  /** Ends a call that waits for a person but leaves its question open; false if the call doesn't wait for one. */
  park(callId: string): boolean {
    const { reached, record: { state } = {} } = this.#calls.underWay(callId) ?? {};
    if (!reached || !isJudged(reached) || reached.decision !== 'ask') return false;
    if (state?.status !== 'blocked-on-user') return false;
    return this.abort(callId, required({ ...state, tool: reached.name, ...askingRuleOf(reached) }));
  }

  /** Aborts a call with `reason`; false if it does not run. A time limit that passes while a person is asked says so. */
  abort(callId: string, reason: ToolError): boolean {
    const keptCall = this.#calls.underWay(callId);
    if (!keptCall || keptCall.record.result) return false;
    keptCall.call.controller.abort(whileAsked(keptCall, reason));
    return true;
  }

  /** The client disconnected and may come back. */
  leave(): void {
    this.#calls.leave();
  }

  comeBack(): void {
    this.#calls.comeBack();
  }

  /** Whether so much ended without a client that more would push it out of memory; waiting calls should then keep waiting. */
  get isFull(): boolean {
    return this.#calls.isFull;
  }

  get(callId: string): CallRecord | undefined {
    return this.#calls.get(callId)?.record;
  }

  /** Running calls and their effects, as far as known. */
  get underWay(): { record: CallRecord; effects: readonly Effect[] }[] {
    return this.#calls.open.map(({ reached, record }) => ({
      record,
      effects: effectsOf(reached),
    }));
  }

  /** The session's memory of its calls. */
  get remembered(): Pick<KeptCalls, 'endedCalls' | 'records' | 'all'> {
    return this.#calls;
  }

  /** A page of calls: `others` first, newest last; `cursor` is the last call of the previous page. */
  list(filter: CallFilter, others: readonly CallRecord[]): CallPage {
    return this.#calls.list(filter, others);
  }

  /** Ends the calls that wait for a person; their questions stay open if `reason` leaves them so. */
  endBlocked(reason: ToolError): void {
    for (const { call, record } of this.#calls.open)
      if (record.state.status === 'blocked-on-user') call.controller.abort(reason);
  }

  /** Answers all further calls with `reason`. */
  refuse(reason: ToolError): void {
    this.#closing ??= reason;
  }

  /** Whether it takes no more calls. */
  get isEnding(): boolean {
    return this.#closing !== undefined;
  }

  /** Aborts all calls except detached ones and refuses further ones; settles when the last has ended. */
  async end(reason: ToolError): Promise<void> {
    this.refuse(reason);
    const open = this.#calls.open.filter(({ call }) => !call.options.detached);
    for (const { call } of open) call.controller.abort(reason);
    await Promise.all(open.map(({ result }) => result));
  }

  /** The earlier result for the call's id, or the conflict with it; undefined if the id is free. */
  #earlierResult(call: Call, isUsed: boolean): Promise<ToolResult> | ToolError | undefined {
    const { id } = call;
    const isForgotten = this.#calls.hasForgotten(id);
    const earlier =
      call.options.callId === undefined || isUsed ? undefined : this.options.keeping.earlierResult(call, isForgotten);
    if (earlier || (!isUsed && !isForgotten)) return earlier;
    const why = isUsed ? 'was used for another call' : 'was used, and its result is forgotten';
    return new ToolError('CONFLICT', `call id ${id} ${why}`, { layer: 'daemon' });
  }

  #newCall(id: string, name: string, rawInput: unknown, options: CallOptions): Call {
    const { id: sessionId, name: sessionName, principal, client, workspace, root, toolset } = this.options;
    const { onOutput, congested, delegation, role } = this.options;
    const atDoors = doorsOf(this);
    const policyNow = () => this.options.withOpenings(atDoors, this.policy());
    const call: Call = {
      id,
      sessionId,
      principal,
      workspace,
      sessionName,
      budget: delegation?.budget,
      atDoors,
      client,
      parents: this.#parentsOf(options),
      root,
      toolset,
      rawInput,
      options,
      name,
      isOperator: role === 'operator',
      accountId: accountOf(this),
      policy: policyNow(),
      policyNow,
      sawUntrusted: () => this.sawUntrusted,
      controller: new AbortController(),
      announce() {},
      reached() {},
      congested,
      output: (stream, data) => onOutput(call, stream, data),
    };
    return call;
  }

  #parentsOf({ parentCallId }: CallOptions): CallParent[] {
    const parent = parentCallId === undefined ? undefined : this.#calls.underWay(parentCallId);
    return parent ? [...parent.call.parents, { callId: parent.call.id, tool: parent.record.tool }] : [...chainOf(this)];
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
    const outcome = await outcomeOf(async () => {
      if (this.#closing) throw this.#closing;
      if (call.budget && call.options.detached) throw notDetached();
      const onStart = keeping.recordStart(kept);
      call.announce({ status: 'queued', position: 0 });
      return run(onStart ? { ...call, onStart } : call);
    }, call);
    deadline?.cancel();
    if (outcome.error?.code === 'INTERNAL')
      powers.log.error(
        { error: outcome.error.cause, callId: redactText(call.id) },
        'a call failed with an internal error',
      );
    const isUntrusted = outcome.untrusted || kept.reached?.checked.tool.untrusted;
    // The error of such a call may hold strangers' words, too.
    if ((outcome.started || outcome.cached) && kept.reached && isUntrusted)
      this.options.untrusted.add(call.id, kept.reached.checked.tool.name);
    const result = this.#toResult(call, startedAt, outcome, kept.reached);
    kept.heldBytes = outcome.heldBytes;
    kept.times.end();
    kept.record.result = result;
    kept.record.tool = result.tool;
    kept.record.state = endOf(result);
    // Stored before anyone is notified, so a reported result survives the daemon's end.
    keeping.recordEnd(kept);
    call.announce(kept.record.state);
    this.#calls.addEnded(kept);
    return result;
  }

  #toResult(call: Call, startedAt: number, outcome: Outcome, reached?: CheckedCall): ToolResult {
    const durationMs = round(this.options.powers.monotonicMs() - startedAt);
    const tool = reached?.checked.tool.name ?? call.toolset.get(call.name)?.tool.name ?? redactText(call.name);
    const { error, usage, hostPid, queuedMs, cached, denied, withheld, quarantined, warnings, costUsd } = outcome;
    const verdict = error ? verdictOf(error, usage?.verdict) : usage?.command?.scratchFull ? 'file' : 'ok';
    const metadata: ResultMetadata = {
      durationMs,
      queuedMs: round(queuedMs),
      cached,
      retriesAttempted: outcome.retriesAttempted,
      ...(outcome.approvalGranted && { approvalGranted: true }),
      timestamp: new Date(this.options.powers.now() - durationMs).toISOString(),
      tier: reached?.checked.tier,
      hostPid,
      ...(usage?.truncatedBytes !== undefined && {
        truncated: { bytesTotal: usage.truncatedBytes, ref: call.logRef },
      }),
      filesChanged: redactValue(usage?.filesChanged) as FileChange[] | undefined,
      filesChangedTotal: usage?.filesChangedTotal,
      denied: redactValue(denied) as Denial[] | undefined,
      ...waitedOf(call, outcome),
      withheld: redactValue(withheld) as Withheld | undefined,
      quarantined,
      undo: usage?.undo ?? 'none',
      undoMissing: redactValue(usage?.undoMissing) as NotKept[] | undefined,
      undoMissingTotal: usage?.undoMissingTotal,
      resources: {
        cpuMs: round(usage?.cpuMs ?? 0),
        peakBytes: usage?.peakBytes,
        outputBytes: usage?.outputBytes ?? 0,
        processes: usage?.processes,
        verdict,
        enforcedBy: usage?.enforcedBy ?? 'not started',
      },
      costUsd,
      ...(warnings.length > 0 && { warnings: [...warnings] }),
    };
    const base = { callId: call.id, tool, metadata };
    return error
      ? { ...base, success: false, error: redactValue(withSuggestion(error.toWire())) as WireError }
      : { ...base, success: true, data: outcome.data, ...shownPreview(outcome) };
  }
}

const shownPreview = ({ preview }: Outcome) => (preview ? { preview: redactValue(preview) as typeof preview } : {});

const round = (ms: number): number => Math.round(ms * 1000) / 1000;
