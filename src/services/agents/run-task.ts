/** Runs a call that delegates a task to a sub-agent. */

import { ToolError, toToolError } from '../../base/errors.ts';
import { onAbort } from '../../base/powers.ts';
import type { ChildSession } from '../../pipeline/execute/child-session.ts';
import type { Runner } from '../../pipeline/execute/runner.ts';
import { failed, type Outcome, type RunHooks, succeeded } from '../../pipeline/outcome.ts';
import type { ClearedCall } from '../../pipeline/stage.ts';
import { runsBy } from '../../tools/runs.ts';
import type { TaskInput, TaskOutput } from '../../tools/task/delegate.ts';
import type { DaemonParts } from '../capability.ts';
import type { RunningTasks } from './running-tasks.ts';
import { Task, type TaskParts } from './task.ts';

export type RunTaskParts = TaskParts & Pick<DaemonParts, 'egress'> & { readonly runningTasks: RunningTasks };

/** Runs calls that delegate tasks to sub-agents. */
export const agentRunner = (parts: RunTaskParts): Runner<'agents'> => ({
  run: (_, call, hooks) => runTask(call, parts, hooks),
});

async function runTask(call: ClearedCall, parts: RunTaskParts, hooks: RunHooks): Promise<Outcome> {
  const { powers, agents, runningTasks, egress } = parts;
  const { attempt } = hooks;
  const profile = agents.find((call.checked.input as TaskInput).agent);
  assertDepth(call, parts);
  const taskId = powers.uuid();
  const task = new Task({ taskId, call, profile }, parts);
  const { accountId, principal, controller } = call;
  const cancelled = new ToolError('CANCELLED', 'an operator or its principal cancelled the task');
  using _place = runningTasks.enter(taskId, {
    accountId,
    principal,
    cancel: () => task.stop('cancelled', cancelled),
  });
  const child = openChildFor(call, task, parts);
  let connected: Outcome['connected'];
  try {
    using _ = onAbort(controller.signal, () => task.stop('cancelled', controller.signal.reason as ToolError));
    task.begin(child);
    const { egress: report } = await egress.lend([profile.network], task.signal, async ({ fetch }) => {
      await runToEnd(task, { fetch, call, taskId, parts, hooks });
      return {};
    });
    connected = report === 'lost' ? undefined : report.connected;
  } catch (error) {
    // The task did not start: there is nothing to tell of it.
    if (!attempt.started) {
      await child.end('the task did not start');
      throw controller.signal.aborted ? controller.signal.reason : error;
    }
    const { message } = toToolError(error);
    task.report.endsBy('error', message);
  }
  const data = await finish(task, taskId, parts);
  const usage = { cpuMs: 0, outputBytes: 0, verdict: 'ok', enforcedBy: 'isolate' } as const;
  const brought = {
    ...attempt,
    usage,
    connected,
    costUsd: data.usage.usd,
    untrusted: child.sawUntrusted,
  };
  return controller.signal.aborted ? failed(controller.signal.reason, brought) : succeeded(data, brought);
}

/** Throws RATE_LIMITED for a sub-agent that is too deep to have one of its own. */
function assertDepth({ parents, checked: { tool } }: ClearedCall, { limits }: RunTaskParts): void {
  const depth = parents.filter((it) => it.tool === tool.name).length;
  if (depth >= limits.taskDepthMax)
    throw new ToolError('TOOL_DISABLED', `sub-agents have sub-agents down to depth ${limits.taskDepthMax}, not deeper`);
}

/** Tools of a sub-agent where neither its caller nor its profile names any: it reads, searches, edits and runs commands. */
const USUAL_TOOLS = [
  ...['file_read', 'file_read_many', 'file_write', 'file_edit', 'file_list', 'file_glob', 'file_grep', 'file_search'],
  'terminal_execute',
];

/** Opens the session of the sub-agent: what the caller asks for, of what its profile and its session have. */
function openChildFor(call: ClearedCall, task: Task, { agents, limits }: RunTaskParts): ChildSession {
  const { tool, input } = call.checked;
  const { agent, tools: asked, budget = {}, mode } = input as TaskInput;
  const profile = agents.find(agent);
  const tools = asked && ownNames(asked, call);
  const depth = call.parents.filter((it) => it.tool === tool.name).length + 1;
  const { usd, tokens, calls } = budget;
  if (!call.openChild) throw new ToolError('UNSUPPORTED', 'this session can have no sub-agents');
  return call.openChild({
    agent: profile.name,
    budget: { usd, tokens, calls },
    tools: [tools ?? (profile.tools ? undefined : USUAL_TOOLS), profile.tools, ...toolsOfPlugins(call)].filter(
      (it) => it !== undefined,
    ),
    // A pattern that means all tools does not mean this one.
    delegates: depth < limits.taskDepthMax && (tools?.includes(tool.name) ?? false),
    listsAll: tools !== undefined && !tools.includes('*'),
    policies: profile.policy === undefined ? [] : [profile.policy],
    modes: [mode, profile.mode].filter((it) => it !== undefined),
    onState: (callId, _, state) => task.onState(callId, state),
  });
}

/** What the plugins by which the call came may call: their sub-agents may call no more. */
const toolsOfPlugins = ({ parents, toolset }: ClearedCall): (readonly string[])[] =>
  parents.flatMap(({ tool }) => {
    const named = toolset.get(tool);
    const plugin = named && runsBy(named.tool, 'isolates')?.plugin;
    return plugin ? [plugin.tools] : [];
  });

/** The names with the tools' own in place of aliases. Throws INPUT_INVALID for one that is no tool of the session; patterns may match nothing. */
function ownNames(asked: readonly string[], { toolset }: ClearedCall): string[] {
  const unknown = asked.filter((it) => !it.includes('*') && !toolset.has(it));
  if (unknown.length === 0) return asked.map((it) => toolset.get(it)?.tool.name ?? it);
  throw new ToolError('INPUT_INVALID', `tools: this session has no tool ${unknown.slice(0, 8).join(', ')} to pass on`);
}

interface TaskRun {
  readonly fetch: Parameters<Task['run']>[0]['fetch'];
  readonly call: ClearedCall;
  readonly taskId: string;
  readonly parts: RunTaskParts;
  readonly hooks: RunHooks;
}

/** Runs the task, and keeps an error of it as its end, so that the report of its connections is kept with it. */
async function runToEnd(task: Task, { fetch, call, taskId, parts, hooks }: TaskRun): Promise<void> {
  const { powers, taskStore, agents, redact } = parts;
  const { attempt, beforeStart } = hooks;
  const { name: agent, model } = agents.find((call.checked.input as TaskInput).agent);
  const startedAt = new Date(powers.now()).toISOString();
  const onStarted = () => {
    attempt.started = true;
    call.announce({ status: 'in-progress', startedAt });
  };
  const { id: callId, sessionId, principal, workspace, parents } = call;
  const { prompt } = call.checked.input as TaskInput;
  const about = { taskId, callId, sessionId, principal, workspace, agent, model, prompt, startedAt, parents };
  try {
    await task.run({
      fetch,
      onStarted,
      async beforeStart() {
        await beforeStart();
        taskStore.begin(redact(about));
      },
    });
  } catch (error) {
    if (!attempt.started) throw error;
    task.report.endsBy('error', toToolError(error).message);
  }
}

async function finish(task: Task, taskId: string, { taskStore, powers, redact }: RunTaskParts): Promise<TaskOutput> {
  const data = await task.close();
  const { ended, reason, usage, toolExecutions, summary, output } = data;
  const endedAt = new Date(powers.now()).toISOString();
  task.write({
    kind: 'end',
    ended,
    summary,
    output,
  });
  taskStore.end(taskId, redact({ ended, reason, endedAt, usage, calls: toolExecutions.length }));
  return data;
}
