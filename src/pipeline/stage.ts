/** What passes through the pipeline: one call, whose facts each stage may read and add to. */
import type { CallOptions, CallState, Decision, Effect, Tier, ToolResult } from '../call.ts';
import type { Decided } from '../policy/decide.ts';
import type { Question } from '../policy/question.ts';
import type { Policy } from '../policy/schema.ts';
import type { Preview, Tool } from '../tools/tool.ts';
import type { Outcome } from './outcome.ts';

/** A tool by the name that the caller used. */
export interface NamedTool {
  readonly tool: Tool;
  /** Checks that name's own parameters and gives the tool's. Throws ZodError. */
  parse(input: unknown): unknown;
  /** What the caller is told of parameters that are accepted and change nothing. */
  warnings?(input: unknown): string[];
  /** Parameters that go with that name, for suggestions. */
  readonly parameters: readonly string[];
  /** What one of them holds, in the words of TypeScript; undefined for what is no more than a word or a list of words. */
  shapeOf?(parameter: string): string | undefined;
}

/** Names to tools; what a session was not given can't be named. */
export type Toolset = ReadonlyMap<string, NamedTool>;

/** What validation proved; the stages after it work on this. */
export interface Checked {
  readonly tool: Tool;
  readonly input: unknown;
  readonly effects: readonly Effect[];
  readonly tier: Tier;
}

/** Makes a call for a program; never rejects. `signal` is aborted with the ToolError that it then ends with. */
export type ChildCall = (
  tool: string,
  input: unknown,
  control: { readonly signal: AbortSignal; onState(state: CallState): void },
) => Promise<ToolResult>;

export interface Call {
  readonly id: string;
  readonly sessionId: string;
  /** Of sessions that share what a person said for the session. */
  readonly sessionName?: string;
  readonly principal: string;
  readonly workspace: string;
  /** The daemon's workspace that holds it: paths in rules, effects and records count from there. */
  readonly root: string;
  /** In force when the call came; `policyNow` is asked again just before it starts. */
  readonly policy: Policy;
  policyNow(): Policy;
  readonly toolset: Toolset;
  /** The input as the caller wrote it. */
  readonly name: string;
  readonly rawInput: unknown;
  readonly options: CallOptions;
  /** Aborted with the ToolError that the call then ends with: CANCELLED, TIMEOUT, SHUTTING_DOWN. */
  readonly controller: AbortController;
  /** Whether its caller reads so slowly that its result had better not be made yet. */
  congested(): boolean;
  /** Announces; nothing waits for it. */
  announce(state: CallState): void;
  /** Takes output while it comes; gives a promise where more had better wait until it settles, which never rejects. */
  output(stream: 'stdout' | 'stderr', data: Uint8Array): Promise<void> | undefined;

  /** For programs. */
  child?: ChildCall;
  /** Called before its job is sent, each time it is. Throws STORE_FAILED; then it does not run. */
  onStart?: () => void;

  checked?: Checked;
  question?: Question;
  decided?: Decided;
  decision?: Decision;
  rule?: string;
  /** Whether its cost passes the soft limit, so that a person is asked. */
  costAsk?: boolean;
  costUsd?: number;
  /** Set by a person's yes. */
  approvalGranted?: boolean;
  /** Called right before the job starts. Throws APPROVAL_STALE when what was approved is not what would run. */
  confirm?: () => Promise<void>;
  /** What the person saw of files that it may replace; set with the yes to a tool that tells. */
  approvedPreImages?: Preview['preImages'];
  /** What the caller should know of the call, whatever comes of it. */
  readonly warnings: string[];
  /** Of the last attempt to run it. */
  outcome: Outcome;
  /** Attempts after the first. */
  retriesAttempted?: number;
  /** Whether its intent is on record, with its input. */
  intended?: boolean;
  /** Names the log of its output, once there is some. */
  logRef?: string;
}

/** Gives the call's data, or throws the ToolError that it ends with. */
export type Handler = (call: Call) => Promise<unknown>;
export type Stage = (next: Handler) => Handler;

/** The facts of validation, for the stages that stand after it. */
export function checkedOf(call: Call): Checked {
  if (!call.checked) throw new Error('this stage stands after validate');
  return call.checked;
}
