/** The call that passes through the pipeline; each stage may read its facts and add to them. */

import type {
  CallOptions,
  CallParent,
  CallState,
  Decision,
  Effect,
  SpanContext,
  StageName,
  Tier,
  ToolResult,
} from '../base/call.ts';
import type { PolicyDecision } from '../policy/decide.ts';
import type { PolicyQuestion } from '../policy/question.ts';
import type { Policy } from '../policy/schema.ts';
import type { Preview, Tool, Toolset } from '../tools/tool.ts';
import type { Budget } from './budget.ts';
import type { OpenChild } from './execute/child-session.ts';
import { failed, type Outcome } from './outcome.ts';

/** What validation proved; later stages work on this. */
export interface Checked {
  readonly tool: Tool;
  readonly input: unknown;
  readonly effects: readonly Effect[];
  readonly tier: Tier;
}

/** Makes a call for a program; never rejects. The call ends with the ToolError that aborts `signal`. */
export type ChildCall = (
  tool: string,
  input: unknown,
  control: { readonly signal: AbortSignal; readonly span?: SpanContext; onState(state: CallState): void },
) => Promise<ToolResult>;

/** A session as answers at doors know it. */
export interface DoorHolder {
  readonly sessionId: string;
  readonly sessionName?: string | undefined;
  readonly principal: string;
  readonly workspace: string;
  /** Whether its authority was passed on to it. */
  readonly isDelegated: boolean;
}

/** A call as it arrived, and the ways to reach its caller. */
export interface Call {
  readonly id: string;
  readonly sessionId: string;
  /** Names the sessions that share answers remembered for the session. */
  readonly sessionName?: string | undefined;
  readonly principal: string;
  /** Name and version that the session's client gave. */
  readonly client: string;
  /** The calls and tokens by which this one came about, the outermost first. */
  readonly parents: readonly CallParent[];
  /** The session whose limits on rates and costs it counts against: the outermost one that passed authority on. */
  readonly accountId: string;
  /** Set for a call of a delegated session: what the session may spend. */
  readonly budget?: Budget | undefined;
  /** Whose answers at doors count for the call: its own session, or for a sub-agent under its caller's policy its caller's. */
  readonly atDoors: DoorHolder;
  /** Whether an operator makes the call. */
  readonly isOperator?: boolean;
  readonly workspace: string;
  /** The configured workspace that holds `workspace`; paths in rules, effects and records are relative to this root. */
  readonly root: string;
  /** The policy in force when the call arrived; `policyNow` is asked again just before the start. */
  readonly policy: Policy;
  policyNow(): Policy;
  /** Whether the session has got a result that strangers wrote. */
  sawUntrusted(): boolean;
  readonly toolset: Toolset;
  /** The tool's name as the caller wrote it. */
  readonly name: string;
  readonly rawInput: unknown;
  readonly options: CallOptions;
  /** Aborted with the ToolError that ends the call: CANCELLED, TIMEOUT, SHUTTING_DOWN. */
  readonly controller: AbortController;
  /** Whether the caller reads so slowly that the call should not start yet. */
  congested(): boolean;
  /** Announces a state; nothing waits for the message. */
  announce(state: CallState): void;
  /** Tells those who measure the call that it goes on to a stage; it may come to one again when it is retried. */
  enter?(stage: StageName): void;
  /** Passes on output as it comes. A returned promise asks the sender to pause until it settles; it never rejects. */
  output(stream: 'stdout' | 'stderr', data: Uint8Array): Promise<void> | undefined;

  /** Tells those who watch the call what a stage found out of it: the call as the stages behind that one see it. */
  reached(call: CheckedCall): void;
  /** Makes calls for a program; set if the tool runs one. */
  readonly child?: ChildCall | undefined;
  /** Opens the session of a sub-agent, which ends with the call. */
  readonly openChild?: OpenChild;
  /** Called before each time that the job is sent. Throws STORE_FAILED to stop the call. */
  readonly onStart?: () => void;
  /** Set by the stage `costCap`, if the tool has an estimate. */
  readonly cost?: Cost | undefined;
  /** Names the log of the call's output, once there is output. */
  logRef?: string;
}

/** The estimated cost of a call. */
export interface Cost {
  readonly usd: number;
  /** Whether it passes the soft limit, so that a person is asked. */
  readonly asks: boolean;
}

/** Behind `validate`: the tool is known, and the input is what it takes. */
export interface CheckedCall extends Call {
  readonly checked: Checked;
}

/** Behind `permission`: the policy lets it run, or has a person asked. */
export interface JudgedCall extends CheckedCall {
  readonly question: PolicyQuestion;
  readonly decided: PolicyDecision;
  /** The policy's decision, or `ask` for the cost. */
  readonly decision: Decision;
  /** Id of the rule that decided. */
  readonly rule: string;
}

/** Behind `approve`: nobody has to be asked any more. */
export interface ClearedCall extends JudgedCall {
  /** Undefined if nobody had to be asked. */
  readonly approval: Approval | undefined;
}

/** A person's yes to a call. */
export interface Approval {
  /**
   * Called right before the job starts. Throws APPROVAL_STALE if what would run is not what was approved. Absent for an answer that was
   * remembered.
   */
  readonly confirm?: () => Promise<void>;
  /** Hashes of the files as the person saw them, for tools with a preview; the call replaces no other content. */
  readonly preImages?: Preview['preImages'] | undefined;
}

/** Gives what came of the call; throws the ToolError by which a stage refuses it. */
export type Handler<Taken extends Call = Call> = (call: Taken) => Promise<Outcome>;
/** Takes calls of one kind, and gives the stages behind it calls of the same or of a narrower kind. */
export type Stage<Taken extends Call = Call, Given extends Call = Taken> = (next: Handler<Given>) => Handler<Taken>;

type AnyStage = Stage<never, Call>;

/** The same stages, or `never` from the first one on that takes a call of another kind than the stage before it gives. */
type Fitting<Given extends Call, Stages extends readonly AnyStage[]> = Stages extends readonly [
  (next: Handler<infer Next>) => (call: infer Taken) => Promise<Outcome>,
  ...infer Rest extends readonly AnyStage[],
]
  ? Given extends Taken
    ? readonly [Stages[0], ...Fitting<Next, Rest>]
    : never
  : readonly [];

/** Puts stages before `end`, the first one outermost. Compiles only if each stage gives what the next one takes. */
export function inOrder<const Stages extends readonly AnyStage[]>(
  stages: Stages & Fitting<Call, Stages>,
  end: Handler<ClearedCall>,
): Handler {
  const all: readonly AnyStage[] = stages;
  return all.reduceRight<Handler<never>>((next, stage) => stage(next as Handler), end) as Handler;
}

/** What the call may do, as far as is known. */
export const effectsOf = (call: CheckedCall | undefined): readonly Effect[] =>
  call === undefined ? [] : isJudged(call) ? call.decided.effects : call.checked.effects;

export const isJudged = (call: CheckedCall): call is JudgedCall => 'decided' in call;

/** The outcome that `handler` gives, or that of a call for which nothing ran, if it throws. */
export async function outcomeOf<Taken extends Call>(handler: Handler<Taken>, call: Taken): Promise<Outcome> {
  try {
    return await handler(call);
  } catch (thrown) {
    return failed(thrown);
  }
}
