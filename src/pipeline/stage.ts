/** The call that passes through the pipeline; each stage may read its facts and add to them. */
import type { CallOptions, CallState, Decision, Effect, Tier, ToolResult } from '../call.ts';
import type { PolicyDecision } from '../policy/decide.ts';
import type { PolicyQuestion } from '../policy/question.ts';
import type { Policy } from '../policy/schema.ts';
import type { Preview, Tool } from '../tools/tool.ts';
import type { Outcome } from './outcome.ts';

/** A tool under the name that the caller used. */
export interface NamedTool {
  readonly tool: Tool;
  /** Checks the parameters of that name, and gives those of the tool. Throws ZodError. */
  parse(input: unknown): unknown;
  /** Warnings about parameters that are accepted but have no effect. */
  warnings?(input: unknown): string[];
  /** The parameters of that name, for suggestions. */
  readonly parameters: readonly string[];
  /** The TypeScript form of a parameter; undefined if it is just a text or a list of texts. */
  shapeOf?(parameter: string): string | undefined;
}

/** Tools by name; a call can name only tools that its session was given. */
export type Toolset = ReadonlyMap<string, NamedTool>;

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
  control: { readonly signal: AbortSignal; onState(state: CallState): void },
) => Promise<ToolResult>;

export interface Call {
  readonly id: string;
  readonly sessionId: string;
  /** Names the sessions that share answers remembered for the session. */
  readonly sessionName?: string;
  readonly principal: string;
  readonly workspace: string;
  /** The configured workspace that holds `workspace`; paths in rules, effects and records are relative to this root. */
  readonly root: string;
  /** The policy in force when the call arrived; `policyNow` is asked again just before the start. */
  readonly policy: Policy;
  policyNow(): Policy;
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
  /** Passes on output as it comes. A returned promise asks the sender to pause until it settles; it never rejects. */
  output(stream: 'stdout' | 'stderr', data: Uint8Array): Promise<void> | undefined;

  /** Makes calls for a program; set if the tool runs one. */
  child?: ChildCall;
  /** Called before each time that the job is sent. Throws STORE_FAILED to stop the call. */
  onStart?: () => void;

  checked?: Checked;
  question?: PolicyQuestion;
  decided?: PolicyDecision;
  decision?: Decision;
  rule?: string;
  /** Whether the cost passes the soft limit, so that a person is asked. */
  costAsk?: boolean;
  costUsd?: number;
  /** Whether a person approved the call. */
  approvalGranted?: boolean;
  /** Called right before the job starts. Throws APPROVAL_STALE if what would run is not what was approved. */
  confirm?: () => Promise<void>;
  /** Hashes of the files as the person saw them, for tools with a preview; the call replaces no other content. */
  approvedPreImages?: Preview['preImages'];
  /** Warnings for the caller, whether the call succeeds or fails. */
  readonly warnings: string[];
  /** What the last attempt brought. */
  outcome: Outcome;
  /** Attempts after the first. */
  retriesAttempted?: number;
  /** Whether the audit log holds the call's intent, with its input. */
  intended?: boolean;
  /** Names the log of the call's output, once there is output. */
  logRef?: string;
}

/** Gives the call's data, or throws the ToolError that ends the call. */
export type Handler = (call: Call) => Promise<unknown>;
export type Stage = (next: Handler) => Handler;

/** What validation proved, for the stages after `validate`. */
export function checkedOf(call: Call): Checked {
  if (!call.checked) throw new Error('this stage must come after validate');
  return call.checked;
}
