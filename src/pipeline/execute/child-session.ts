/** The session of a sub-agent, as its call sees it: the authority of the caller's session, narrowed. */
import type { CallState, ToolResult } from '../../base/call.ts';
import type { ToolError } from '../../base/errors.ts';
import type { Budget, BudgetTerms } from '../budget.ts';

/** What the session has of its parent's authority. */
export interface ChildTerms {
  /** Name of the profile of its model. */
  readonly agent: string;
  readonly budget: BudgetTerms;
  /** Lists of patterns of tools' names; a tool has to match each of them. */
  readonly tools: readonly (readonly string[])[];
  /** Whether it may have sub-agents of its own. */
  readonly delegates: boolean;
  /** Whether its model is told of all its tools, also of those that short lists leave out. */
  readonly listsAll: boolean;
  readonly policies: readonly string[];
  readonly modes: readonly string[];
  /** Called on every change of one of its calls. */
  onState(callId: string, tool: string, state: CallState): void;
}

/** A tool call of a model; its input is checked like that of any call. */
export interface TurnCall {
  readonly callId: string;
  readonly tool: string;
  readonly input: unknown;
}

/** A result, and the text of it for a model. */
export interface TurnResult {
  readonly result: ToolResult;
  readonly text: string;
}

export interface ChildSession {
  readonly id: string;
  readonly budget: Budget;
  /** Whether it got a result that strangers wrote. */
  readonly sawUntrusted: boolean;
  /** The session's tools in the form that a model's server takes. */
  tools(format: 'openai-chat' | 'anthropic'): readonly unknown[];
  /** Runs the calls of one turn as a batch; never rejects. The calls end with the reason of the signal. */
  run(calls: readonly TurnCall[], signal: AbortSignal): Promise<TurnResult[]>;
  abort(callId: string, reason: ToolError): void;
  /** Ends the session with all of its calls. */
  end(reason: string): Promise<void>;
}

/** Opens a session below the one of the call. Throws ToolError for terms that the parent can't give. */
export type OpenChild = (terms: ChildTerms) => ChildSession;
