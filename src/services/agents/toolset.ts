/** `task_delegate` as a daemon has it: bound to the profiles of its configuration, and not there without any. */

import { runsBy } from '../../tools/runs.ts';
import type { TaskInput } from '../../tools/task/delegate.ts';
import type { NamedTool, Tool } from '../../tools/tool.ts';
import { SUMMARY_PROFILE } from '../../tools/web/summary.ts';
import { hostOf } from '../secrets/secrets.ts';
import type { Agents } from './agents.ts';

export function withAgents(named: NamedTool, agents: Agents): NamedTool | undefined {
  if (named.tool.summarized && agents.names.includes(SUMMARY_PROFILE)) return { ...named, tool: withHint(named.tool) };
  if (!runsBy(named.tool, 'agents')) return named;
  if (agents.names.length === 0) return undefined;
  return {
    ...named,
    tool: {
      ...named.tool,
      effects: (input) => [{ kind: 'connect', target: hostOf(new URL(agents.find((input as TaskInput).agent).url)) }],
    },
    parse(given) {
      const input = named.parse(given) as TaskInput;
      agents.find(input.agent);
      return input;
    },
  };
}

const withHint = (tool: Tool): Tool => ({
  ...tool,
  summary: `${tool.summary} With \`summarize: QUESTION\`, a model reads it and answers the question.`,
});
