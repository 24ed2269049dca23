/**
 * Calls that outlive their session's memory: detached calls, which their principal can find, and calls that may have changed something in a
 * resumable session. Such a call id never runs twice, not even after a restart.
 */

import type { CallRecord, CallState, Effect, ToolResult } from '../base/call.ts';
import { ToolError } from '../base/errors.ts';
import type { Limits } from '../base/limits.ts';
import { lostResult } from '../base/lost-result.ts';
import { redactText } from '../base/redact.ts';
import { subjectHash } from '../pipeline/approve/binding.ts';
import { type Call, effectsOf } from '../pipeline/stage.ts';
import type { CallStore, StoredCall } from '../store/call-store.ts';
import type { Fence } from './connections/fence.ts';
import type { KeptCall } from './kept-calls.ts';
import type { CallKeeping, Session } from './session.ts';

/** The session that looks for a call. */
type CallSeeker = Pick<Session['options'], 'id' | 'principal' | 'role' | 'delegation'>;

export class DurableCalls {
  readonly #store: CallStore;
  readonly #limits: Limits;
  /** Detached calls that still run, including those whose session has ended. */
  readonly #live = new Set<KeptCall>();
  /** Calls recorded in the store because they may have changed something. */
  readonly #recorded = new WeakSet<Call>();

  constructor(store: CallStore, limits: Limits) {
    this.#store = store;
    this.#limits = limits;
  }

  /** The call storage of one session. `restored`: an earlier daemon opened the session. */
  keeping({
    resumable,
    restored,
    fence,
  }: {
    resumable: boolean;
    restored: boolean;
    /** The fence that a call which comes now is behind. */
    fence: () => Fence | undefined;
  }): CallKeeping {
    return {
      earlierResult: (call, isForgotten) => this.#earlierResult(call, restored || (resumable && isForgotten)),
      recordStart: (kept) => {
        const now = fence();
        return fenced(kept, now, this.#recordStart(kept, resumable || now !== undefined));
      },
      recordEnd: (kept) => this.#recordEnd(kept),
    };
  }

  /** A call outside the session's memory that the session may see: none for a delegated one, every detached call for operators. */
  recordOf(callId: string, { id, principal, role, delegation }: CallSeeker): CallRecord | undefined {
    if (delegation) return undefined;
    const whose = role === 'operator' ? undefined : principal;
    const live = this.#liveOne(callId, whose);
    if (live) return live.record;
    const stored = this.#store.ofSession(id, callId) ?? this.#store.detached(callId, whose);
    return stored && toRecord(stored);
  }

  /** A detached call of a session, which may have ended, while the call still runs. */
  liveOf(sessionId: string, callId: string): CallRecord | undefined {
    return [...this.#live].find(({ call }) => call.sessionId === sessionId && call.id === callId)?.record;
  }

  /** The calls that this session may see, as `calls.list` reports them: oldest first, without results. */
  list({ id, principal, delegation }: CallSeeker): CallRecord[] {
    if (delegation) return [];
    const live = new Map([...this.#live].map(({ record }) => [`${record.sessionId}\0${record.callId}`, record]));
    return this.#store.list(principal, id).map((it) => {
      const { result: _, ...record } = live.get(`${it.sessionId}\0${it.callId}`) ?? toRecord(it);
      return record;
    });
  }

  /** Calls whose id begins or ends with `part`, ended ones included; at most `limit`. */
  named(part: string, limit: number): CallRecord[] {
    return this.#store.named(part, limit).map(toRecord);
  }

  /** Detached calls that still run, whether or not their session does. */
  get underWay(): { record: CallRecord; effects: readonly Effect[]; workspace: string; principal: string }[] {
    return [...this.#live].map(({ call, record, reached }) => ({
      record,
      workspace: call.workspace,
      principal: call.principal,
      effects: effectsOf(reached),
    }));
  }

  /** Cancels a detached call of this principal, or of any principal for an operator; false if none was running. */
  cancel(callId: string, { principal, role, delegation }: CallSeeker): boolean {
    if (delegation) return false;
    const live = this.#liveOne(callId, role === 'operator' ? undefined : principal);
    const details = { by: role === 'operator' ? 'operator' : 'another session of its principal' };
    live?.call.controller.abort(new ToolError('CANCELLED', 'the call was cancelled by its client', { details }));
    return live !== undefined;
  }

  /** Aborts all running calls; settles when the last has ended. */
  async end(reason: ToolError): Promise<void> {
    const all = [...this.#live];
    for (const { call } of all) call.controller.abort(reason);
    await Promise.all(all.map(({ result }) => result));
  }

  #liveOne(callId: string, principal: string | undefined): KeptCall | undefined {
    return [...this.#live].findLast(
      ({ call }) => call.id === callId && (principal ?? call.principal) === call.principal,
    );
  }

  #earlierResult(call: Call, ofSession: boolean): Promise<ToolResult> | ToolError | undefined {
    const { options, principal, sessionId, id } = call;
    const live = options.detached ? this.#liveOne(id, principal) : undefined;
    if (live) return digestOf(live.call) === digestOf(call) ? live.result : conflict(id, 'was used for another call');
    const stored =
      (ofSession ? this.#store.ofSession(sessionId, id) : undefined) ??
      (options.detached ? this.#store.detached(id, principal) : undefined);
    if (!stored) return undefined;
    if (stored.digest !== digestOf(call)) return conflict(id, 'was used for another call');
    const { result } = toRecord(stored);
    return result ? Promise.resolve(result) : conflict(id, 'was used, and its result is forgotten');
  }

  #recordStart(kept: KeptCall, resumable: boolean): Call['onStart'] {
    const { call } = kept;
    if (call.options.detached) {
      const { detachedCallsMax } = this.#limits;
      const open = [...this.#live].filter((it) => it.call.principal === call.principal).length;
      if (open >= detachedCallsMax)
        throw new ToolError('QUEUE_FULL', `${call.principal} has ${open} detached calls, which is the maximum`, {
          suggestion: 'Wait for some of them, or cancel them (calls.list, calls.cancel).',
          details: { retryAfterMs: 1000 },
        });
      this.#store.begin(toNew(call, false));
      this.#live.add(kept);
    } else if (!resumable) return undefined;
    // Nobody resumes a call that a program made; the program's own row says that it was cut off.
    if (!mayChange(call) || call.options.parentCallId !== undefined) return undefined;
    return () => {
      if (this.#recorded.has(call)) return;
      if (call.options.detached) this.#store.intend({ sessionId: call.sessionId, callId: call.id });
      else this.#store.begin(toNew(call, true));
      this.#recorded.add(call);
    };
  }

  #recordEnd(kept: KeptCall): void {
    const { call, record } = kept;
    if (!this.#live.delete(kept) && !this.#recorded.has(call)) return;
    // What a call had done when the daemon's end cut it off is unknown, so it is reported like one that a crash cut off.
    const wasCut = record.result?.success === false && record.result.error.code === 'SHUTTING_DOWN';
    const key = { sessionId: call.sessionId, callId: call.id };
    this.#store.end(key, record.state.status, wasCut ? undefined : record.result);
  }
}

/** Checks the fence of the call's session before the record of its start is written, if it has one. */
const fenced = ({ call }: KeptCall, fence: Fence | undefined, record: Call['onStart']): Call['onStart'] =>
  fence
    ? () => {
        fence.assertMayStart(call.name);
        record?.();
      }
    : record;

/** A call that only reads may run again. */
const mayChange = ({ toolset, name, options }: Call): boolean =>
  options.preview !== true && (toolset.get(name)?.tool.tier ?? 'read_only') !== 'read_only';

function toNew(call: Call, intended: boolean) {
  const { id: callId, sessionId, principal, name, toolset, options } = call;
  const tool = toolset.get(name)?.tool.name ?? redactText(name);
  return { callId, sessionId, principal, tool, digest: digestOf(call), detached: options.detached === true, intended };
}

const digestOf = ({ name, rawInput, options }: Call): string =>
  subjectHash(options.preview ? `preview of ${name}` : name, rawInput);

const conflict = (id: string, why: string): ToolError =>
  new ToolError('CONFLICT', `call id ${id} ${why}`, { layer: 'daemon' });

function toRecord(stored: StoredCall): CallRecord {
  const { callId, sessionId, tool, createdMs, status = 'error' } = stored;
  const result = stored.result ?? (stored.isCut ? cutOff(stored) : undefined);
  const createdAt = new Date(createdMs).toISOString();
  return { callId, sessionId, tool, createdAt, state: { status } as CallState, result };
}

/** The result of a call that was unfinished when its daemon ended. */
const cutOff = ({ callId, tool, createdMs, intended }: StoredCall): ToolResult =>
  lostResult(
    { callId, tool, atMs: createdMs },
    intended
      ? {
          message: 'the daemon ended while this call ran: what the call has done is unknown',
          suggestion: 'Check what the call was meant to change, then call again with another call id.',
          outcome: 'unknown',
        }
      : {
          message: 'the daemon ended before this call did; the call changed nothing',
          suggestion: 'Call again, with another call id.',
          outcome: 'none',
        },
  );
