/** What a task brings: the calls that its sub-agent made, the files that they changed, how it ended. */
import type { ToolResult } from '../../base/call.ts';
import type { TurnResult } from '../../pipeline/execute/child-session.ts';
import type { TaskEnd, TaskOutput } from '../../tools/task/delegate.ts';

/** Files and calls that a report names at most. */
const NAMED_MAX = 1_000;

export class TaskReport {
  readonly #executions: TaskOutput['toolExecutions'] = [];
  readonly #files = new Set<string>();
  #end: { readonly ended: TaskEnd; readonly reason: string | undefined } | undefined;

  /** How the task ended; undefined while it runs. */
  get end(): { readonly ended: TaskEnd; readonly reason: string | undefined } | undefined {
    return this.#end;
  }

  get calls(): number {
    return this.#executions.length;
  }

  /** Notes why the task ends; the first reason counts. */
  endsBy(ended: TaskEnd, reason?: string): void {
    this.#end ??= { ended, reason };
  }

  add(turn: readonly TurnResult[]): void {
    for (const { result } of turn) {
      const { tool, callId, success } = result;
      if (this.#executions.length < NAMED_MAX) this.#executions.push({ tool, callId, success });
      for (const path of filesOf(result)) if (this.#files.size < NAMED_MAX) this.#files.add(path);
    }
  }

  toOutput({ taskId, usage, ...said }: Pick<TaskOutput, 'taskId' | 'usage' | 'summary' | 'output'>): TaskOutput {
    const { ended, reason } = this.#end ?? { ended: 'error', reason: undefined };
    return {
      ...said,
      toolExecutions: this.#executions,
      modifiedFiles: [...this.#files],
      usage,
      ended,
      reason,
      taskId,
    };
  }
}

/** The files that a call changed, those of the sub-agent that it had among them. */
function filesOf(result: ToolResult): string[] {
  const own = (result.metadata.filesChanged ?? []).map(({ path }) => path);
  const { modifiedFiles } = (result.success ? result.data : {}) as { modifiedFiles?: unknown };
  const further = Array.isArray(modifiedFiles) ? modifiedFiles.filter((it) => typeof it === 'string') : [];
  return [...own, ...further];
}

/** Whether nobody answered the questions about a call, or nobody was there to ask. */
export function isUnanswered(result: ToolResult): boolean {
  if (result.success) return false;
  const { code, details } = result.error;
  return (
    code === 'APPROVAL_TIMEOUT' ||
    code === 'APPROVAL_REQUIRED' ||
    (code === 'APPROVAL_DENIED' && details?.headless === true)
  );
}

/** Whether a call was refused because the budget of its session is spent. */
export const isOverBudget = (result: ToolResult): boolean =>
  !result.success && result.error.code === 'COST_LIMIT' && result.error.details?.per === 'budget';
