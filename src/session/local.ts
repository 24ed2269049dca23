/** Sessions of faces that live in this process: what a connection has, without a wire between. */
import type { BatchEstimate, BatchResult, CallState } from '../call.ts';
import type { Call, Toolset } from '../pipeline/stage.ts';
import type { Params } from '../protocol/messages.ts';
import type { Approval, Resolution } from '../store/approval.ts';
import type { Tool } from '../tools/tool.ts';
import type { Batches } from './batches.ts';
import type { Event, Events } from './events.ts';
import type { Identity } from './identity.ts';
import type { Link } from './link.ts';
import type { Oversight } from './oversight.ts';
import { parseParams } from './parse-params.ts';
import type { Results } from './results.ts';
import type { Session } from './session.ts';

export interface LocalOpening {
  readonly client: { readonly name: string; readonly version: string };
  readonly identity: Identity;
  /** Of the process that connected to the face, where the kernel says. */
  readonly uid: number | undefined;
  /** Absolute; the daemon's first workspace when absent. */
  readonly workspace?: string | undefined;
  /** Name of a built-in policy that narrows the daemon's. */
  readonly policy?: string | undefined;
  /** Whether it has a tool of the daemon; all when absent. */
  readonly has?: ((tool: Tool) => boolean) | undefined;
  /** Told of every change of state of its calls. */
  onUpdate(call: Call, state: CallState): void;
}

/** A part of the output that is kept of a call. */
export interface ResultPage {
  readonly data: Uint8Array;
  readonly bytesTotal: number;
  readonly eof: boolean;
}

export interface LocalSession {
  readonly session: Session;
  /** As `tools.batch`, with its params as they came. Throws RpcError. */
  batch(params: unknown): Promise<BatchResult | BatchEstimate>;
  /** Ends a batch by the id that it was given. */
  cancelBatch(batchId: string): void;
  /** As `results.read` of a ref. Throws RpcError INVALID_PARAMS. */
  read(params: { ref: string; offset?: number; limit?: number }): Promise<ResultPage>;
  /** Keeps a text as the output of calls is kept; gives its ref. */
  keep(text: string): string;
  /** The question of that id, answered or not, if it is known. */
  approval(approvalId: string): Approval | undefined;
  /** Whether nobody has answered it yet. */
  isPending(approvalId: string): boolean;
  /** Gives a person's answer. Throws RpcError INVALID_PARAMS where it is answered, expired, or may not be remembered. */
  answer(approvalId: string, resolution: Resolution): void;
  /** Tells of all that happens in the daemon, to be picked from. */
  listen(listener: (event: Event) => void): Disposable;
  /** Its client reads again after it was congested. */
  drained(): void;
  /** Ends it and its calls. */
  end(reason: string): Promise<void>;
}

export interface LocalParts {
  readonly batches: Batches;
  readonly oversight: Oversight;
  readonly results: Results;
  readonly events: Events;
  drained(): void;
  end(link: Link, reason: string): Promise<void>;
}

/** What a face does with the session of a link. */
export function toLocalSession(link: Link, parts: LocalParts): LocalSession {
  const { session, outbox } = link;
  const { batches, oversight, results, events } = parts;
  return {
    session,
    batch: async (params) => batches.run(session, parseParams('tools.batch', params) as Params<'tools.batch'>, outbox),
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

/** Gives those of `all` that `has` says, made anew only where `all` is another. */
export function partOfToolset(all: () => Toolset, has: ((tool: Tool) => boolean) | undefined): () => Toolset {
  if (!has) return all;
  let whole: Toolset | undefined;
  let part: Toolset = new Map();
  return () => {
    const now = all();
    if (now !== whole) {
      whole = now;
      part = new Map([...now].filter(([, { tool }]) => has(tool)));
    }
    return part;
  };
}
