/** Sub-agents: `task_delegate` gives a task to a model that the configuration names; each of its calls is judged by itself. */

import { join } from 'node:path';
import { RpcError } from '../../base/errors.ts';
import { agentProgram } from '../../base/runtime.ts';
import { Isolates } from '../../hosts/isolates.ts';
import { type Asker, defineCapability } from '../capability.ts';
import { Agents } from './agents.ts';
import { agentRunner } from './run-task.ts';
import { RunningTasks } from './running-tasks.ts';
import { agentsSchema, toAgentProfiles } from './settings.ts';
import { TaskStore } from './task-store.ts';
import { withAgents } from './toolset.ts';

export const agents = defineCapability({
  keys: {
    agents: agentsSchema
      .optional()
      .describe('Models of sub-agents, by name: [sub-agents](how-to/sub-agents.md). Default: none.'),
  },
  settings: ({ agents: given = {} }, { toPolicy }) => toAgentProfiles(given, toPolicy),
  start(profiles, daemon) {
    const { parts, stateDir, secrets, catalogue, limits, powers } = daemon;
    const known = new Agents({ profiles, secrets });
    catalogue.bind((it) => withAgents(it, known));
    const taskStore = parts.use(new TaskStore(join(stateDir, 'tasks.db'), limits, powers));
    const agentHosts = parts.use(new Isolates({ ...daemon, program: agentProgram }, powers));
    const runningTasks = new RunningTasks(limits);
    return {
      runners: { agents: agentRunner({ ...daemon, agents: known, taskStore, agentHosts, runningTasks }) },
      methods: {
        'tasks.list': (asker, { limit }) => ({ tasks: taskStore.list(ownerOf(asker), limit) }),
        'tasks.show'(asker, { taskId }) {
          const found = taskStore.find(ownerOf(asker), taskId);
          if (found) return found;
          throw new RpcError('INVALID_PARAMS', `there is no task ${taskId}, or its transcript is no longer kept`);
        },
        'tasks.cancel': (asker, { taskId }) => ({ cancelled: runningTasks.cancel(taskId, ownerOf(asker)) }),
      },
      hosts: () => agentHosts.status(),
      endSession: (id) => agentHosts.endSession(id),
    };
  },
});

/** Whose tasks a session sees: undefined for all. A delegated session sees none: they may be its parent's. */
const ownerOf = ({ role, principal, delegation }: Asker): string | undefined =>
  role === 'operator' ? undefined : delegation ? NOBODY : principal;

/** No principal has an empty name. */
const NOBODY = '';
