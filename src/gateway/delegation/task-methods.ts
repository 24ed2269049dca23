/** Requests about tasks of sub-agents: operators see all of them, others those of their principal. */

import { RpcError } from '../../base/errors.ts';
import type { RunningTasks } from '../../services/agents/running-tasks.ts';
import type { TaskStore } from '../../store/task-store.ts';
import type { Params } from '../../wire/protocol/messages.ts';
import type { ClientLink } from '../client-link.ts';
import type { Session } from '../session.ts';

export interface TaskMethodParts {
  readonly taskStore: TaskStore;
  readonly runningTasks: RunningTasks;
}

/** Whose tasks a session sees: undefined for all. A delegated session sees none: they may be its parent's. */
function ownerOf({ options: { role, principal, delegation } }: Session): string | undefined {
  if (role === 'operator') return undefined;
  return delegation ? NOBODY : principal;
}

/** No principal has an empty name. */
const NOBODY = '';

export const taskMethods = ({ taskStore, runningTasks }: TaskMethodParts) => ({
  'tasks.list': ({ session }: ClientLink, { limit }: Params<'tasks.list'>) => ({
    tasks: taskStore.list(ownerOf(session), limit),
  }),
  'tasks.show': ({ session }: ClientLink, { taskId }: Params<'tasks.show'>) => {
    const found = taskStore.find(ownerOf(session), taskId);
    if (found) return found;
    throw new RpcError('INVALID_PARAMS', `there is no task ${taskId}, or its transcript is no longer kept`);
  },
  'tasks.cancel': ({ session }: ClientLink, { taskId }: Params<'tasks.cancel'>) => ({
    cancelled: runningTasks.cancel(taskId, ownerOf(session)),
  }),
});
