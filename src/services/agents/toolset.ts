/** `task_delegate` as a daemon has it: bound to the profiles of its configuration, and not there without any. */

import { runsBy } from '../../tools/runs.ts';
import type { TaskInput } from '../../tools/task/delegate.ts';
import type { NamedTool, Tool, Toolset } from '../../tools/tool.ts';
import { hostOf } from '../secrets/secrets.ts';
import type { Agents } from './agents.ts';

export function withAgents(toolset: Toolset, agents: Agents): Toolset {
  const builtin = [...toolset.values()].find(({ tool }) => runsBy(tool, 'agents'))?.tool;
  if (!builtin) return toolset;
  if (agents.names.length === 0) return new Map([...toolset].filter(([, it]) => it.tool !== builtin));
  const tool: Tool = {
    ...builtin,
    effects: (input) => [{ kind: 'connect', target: hostOf(new URL(agents.find((input as TaskInput).agent).url)) }],
  };
  const bound = (named: NamedTool): NamedTool => ({
    ...named,
    tool,
    parse(given) {
      const input = named.parse(given) as TaskInput;
      agents.find(input.agent);
      return input;
    },
  });
  return new Map([...toolset].map(([name, it]) => [name, it.tool === builtin ? bound(it) : it]));
}
