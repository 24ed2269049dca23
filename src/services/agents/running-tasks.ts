/** The tasks that run: how many below each outermost session, and how an operator or their principal ends one. */
import { ToolError } from '../../base/errors.ts';
import type { Limits } from '../../base/limits.ts';

interface RunningTask {
  readonly accountId: string;
  readonly principal: string;
  cancel(): void;
}

export class RunningTasks {
  readonly #limits: Pick<Limits, 'tasksAtOnceMax'>;
  readonly #byId = new Map<string, RunningTask>();

  constructor(limits: Pick<Limits, 'tasksAtOnceMax'>) {
    this.#limits = limits;
  }

  /**
   * Takes a place until the result is disposed. Throws QUEUE_FULL: a task can't wait for a place, since those that have
   * one may wait for it.
   */
  enter(taskId: string, task: RunningTask): Disposable {
    const { tasksAtOnceMax } = this.#limits;
    const own = [...this.#byId.values()].filter((it) => it.accountId === task.accountId).length;
    if (own >= tasksAtOnceMax)
      throw new ToolError('QUEUE_FULL', `${own} sub-agents run already; at most ${tasksAtOnceMax} may at once`, {
        suggestion: 'Wait for one of them to end.',
        details: { limit: tasksAtOnceMax, retryAfterMs: 1000 },
      });
    this.#byId.set(taskId, task);
    return { [Symbol.dispose]: () => void this.#byId.delete(taskId) };
  }

  /** Ends a task, of this principal or of any; false if there is none that runs. */
  cancel(taskId: string, principal: string | undefined): boolean {
    const task = this.#byId.get(taskId);
    if (!task || (principal !== undefined && task.principal !== principal)) return false;
    task.cancel();
    return true;
  }
}
