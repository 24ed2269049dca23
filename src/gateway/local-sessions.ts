/** Sessions of front ends inside this process: the same as for a connection, without a wire. */
import type { BatchEstimate, BatchResult, CallOptions, CallState, SpanContext, ToolResult } from '../base/call.ts';
import type { Call } from '../pipeline/stage.ts';
import type { Approval, Resolution } from '../store/approvals/approval.ts';
import type { Tool, Toolset } from '../tools/tool.ts';
import type { Params } from '../wire/protocol/messages.ts';
import type { Identity } from './authenticate.ts';
import type { Batches } from './batches.ts';
import type { ClientLink } from './client-link.ts';
import { movedOn, movedOnCall } from './connections/hand-over.ts';
import type { Event, Events } from './events.ts';
import type { NoticeReceiver } from './outbox.ts';
import type { Oversight } from './oversight.ts';
import { parseParams } from './parse-params.ts';
import type { Results } from './results.ts';
import type { Session } from './session.ts';

export interface LocalOpening {
  readonly client: { readonly name: string; readonly version: string };
  readonly identity: Identity;
  /** User id of the process that connected to the front end, if the kernel tells. */
  readonly uid: number | undefined;
  /** Absolute path; the daemon's first workspace when absent. */
  readonly workspace?: string | undefined;
  /** Name of a built-in policy that narrows the daemon's policy. */
  readonly policy?: string | undefined;
  /** Name of a mode that narrows the session. */
  readonly mode?: string | undefined;
  /** Selects the tools of the session; all when absent. */
  readonly has?: ((tool: Tool) => boolean) | undefined;
  /** Called on every state change of its calls. */
  onUpdate(call: Call, state: CallState): void;
}

/** Receives nothing: for sessions whose owner is told of its calls by `onUpdate`. */
export const SILENT: NoticeReceiver = { closed: false, congested: false, notify() {}, close() {} };

/** A part of a call's kept output. */
export interface ResultPage {
  readonly data: Uint8Array;
  readonly bytesTotal: number;
  readonly eof: boolean;
}

export interface LocalSession {
  readonly session: Session;
  /** Runs a call to its result; never rejects. */
  call(tool: string, input: unknown, options: CallOptions): Promise<ToolResult>;
  /** Like `tools.batch`, with unchecked params; its calls are parts of `span`. Throws RpcError. */
  batch(params: unknown, span?: SpanContext): Promise<BatchResult | BatchEstimate>;
  cancelBatch(batchId: string): void;
  /** Like `results.read` with a ref. Throws RpcError INVALID_PARAMS. */
  read(params: { ref: string; offset?: number; limit?: number }): Promise<ResultPage>;
  /** Stores a text in the same way as the output of calls and returns its ref. */
  keep(text: string): string;
  /** The approval with this id, answered or not; undefined if unknown. */
  approval(approvalId: string): Approval | undefined;
  /** Whether the approval still waits for an answer. */
  isPending(approvalId: string): boolean;
  /** Records a person's answer. Throws RpcError INVALID_PARAMS if the approval is answered or expired, or may not be remembered. */
  answer(approvalId: string, resolution: Resolution): void;
  /** Subscribes to all events of the daemon. */
  listen(listener: (event: Event) => void): Disposable;
  /** Called when its client reads again after congestion. */
  drained(): void;
  /** Ends the session and its calls. */
  end(reason: string): Promise<void>;
}

export interface LocalParts {
  readonly batches: Batches;
  readonly oversight: Oversight;
  readonly results: Results;
  readonly events: Events;
  drained(): void;
  /** Whether the daemon hands over to a new one, and begins no more calls. */
  isMoving(): boolean;
  end(link: ClientLink, reason: string): Promise<void>;
}

/** The operations of a front end on the session of a link. */
export function toLocalSession(link: ClientLink, parts: LocalParts): LocalSession {
  const { session, outbox } = link;
  const { batches, oversight, results, events } = parts;
  return {
    session,
    call: async (tool, input, options) =>
      parts.isMoving()
        ? session.refusal(tool, input, { options, error: movedOnCall() })
        : session.call(tool, input, options),
    batch: async (params, span) => {
      if (parts.isMoving()) throw movedOn();
      return batches.run(session, parseParams('tools.batch', params) as Params<'tools.batch'>, { outbox, span });
    },
    cancelBatch: (callId) => void batches.cancelAny(session, { callId }),
    read: async (params) => {
      const parsed = parseParams('results.read', params) as Params<'results.read'>;
      return (await results.read(session, parsed, () => undefined)) as ResultPage;
    },
    keep: (text) => results.keep(session, text),
    approval: (approvalId) => oversight.approval(approvalId),
    isPending: (approvalId) => oversight.isPending(approvalId),
    answer: (approvalId, { by, ...resolution }) =>
      void oversight.resolve({ approvalId, ...resolution }, by, () => undefined),
    listen: (listener) => events.listen(listener),
    drained: () => parts.drained(),
    end: (reason) => parts.end(link, reason),
  };
}

/** A filtered view of `all`, recomputed only when `all` returns another toolset. */
export function partOfToolset(all: () => Toolset, has: ((tool: Tool) => boolean) | undefined): () => Toolset {
  if (!has) return all;
  let wholeToolset: Toolset | undefined;
  let part: Toolset = new Map();
  return () => {
    const now = all();
    if (now !== wholeToolset) {
      wholeToolset = now;
      part = new Map([...now].filter(([, { tool }]) => has(tool)));
    }
    return part;
  };
}
