/** `ringfence run --agent PROFILE PROMPT`: gives a task to a sub-agent, shows its progress, and prints its summary. */
import type { ToolResult } from '../../base/call.ts';
import type { Client, RunningCall } from '../../client/client.ts';
import type { Approval } from '../../store/approvals/approval.ts';
import type { TaskEnd, TaskInput, TaskOutput } from '../../tools/task/delegate.ts';
import { askPerson, parseDuration } from '../call/call.ts';
import { printResult } from '../call/printed-result.ts';
import { type CliCaller, connect } from '../connect.ts';
import { EXIT, exitCodeOf, harmless, print, printJson, say } from '../output.ts';

export interface RunFlags {
  readonly agent?: string;
  readonly tools?: readonly string[];
  readonly taskMode?: string;
  readonly maxCycles?: number;
  readonly usd?: number;
  readonly tokens?: number;
  readonly timeout?: string;
  readonly json?: boolean;
}

/** Exit codes by how the task ended. */
const EXITS: Readonly<Record<TaskEnd, number>> = {
  done: EXIT.OK,
  error: EXIT.FAILED,
  refused: EXIT.DENIED,
  cycles: EXIT.LIMITED,
  budget: EXIT.LIMITED,
  cancelled: EXIT.INTERRUPTED,
};

/** Returns the exit code. */
export async function run(prompt: string, flags: RunFlags, caller: CliCaller): Promise<number> {
  const input = toInput(prompt, flags);
  await using client = await connect(caller);
  const interrupt = new AbortController();
  process.once('SIGINT', () => interrupt.abort());
  const running = client.call('task_delegate', input, { progress: true, signal: interrupt.signal });
  const over = new AbortController();
  const asking = askAbout(running.callId, { caller, over: over.signal });
  asking.catch(() => {}); // Awaited below.
  const result = await shown(running, flags);
  over.abort();
  await asking;
  return tell(result, flags);
}

/** The input of the call; what no flag says is left to the tool. */
function toInput(prompt: string, flags: RunFlags): Pick<TaskInput, 'prompt'> {
  const { agent, tools, taskMode: mode, maxCycles, usd, tokens, timeout } = flags;
  const ms = timeout === undefined ? undefined : parseDuration(timeout);
  const budget = given({ usd, tokens, ms });
  return {
    prompt,
    ...given({ agent, tools, mode, maxCycles, budget: Object.keys(budget).length > 0 ? budget : undefined }),
  };
}

const given = (all: object): object =>
  Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined));

/** Shows what the sub-agent says and calls, on standard error, until it ends. */
async function shown(running: RunningCall<TaskOutput>, { json }: RunFlags): Promise<ToolResult<TaskOutput>> {
  const decoder = new TextDecoder();
  for await (const it of running)
    if (it.kind === 'output' && !json) process.stderr.write(harmless(decoder.decode(it.data, { stream: true })));
  return await running;
}

/** Asks the person at the terminal about calls of the task, until it is over; without a terminal others may answer. */
async function askAbout(callId: string, { caller, over }: { caller: CliCaller; over: AbortSignal }): Promise<void> {
  if (!process.stdin.isTTY || !process.stderr.isTTY) return;
  await using operator: Client = await connect({ ...caller, role: 'operator' });
  for await (const { method, params } of operator.notifications(['approvals'], { signal: over })) {
    if (method !== 'approval.requested') continue;
    const { approval } = params as { approval: Approval };
    if (approval.parents.some((it) => it.callId === callId)) await askPerson(approval.approvalId, { caller, over });
  }
}

function tell(result: ToolResult<TaskOutput>, { json }: RunFlags): number {
  if (json) printJson(result);
  if (!result.success) {
    if (!json) printResult(result);
    return exitCodeOf(result);
  }
  const { summary, output, ended, reason, usage, modifiedFiles, taskId } = result.data;
  if (json) return EXITS[ended];
  if (output !== undefined) printJson(output);
  else if (summary !== undefined) print(harmless(summary));
  const cost = usage.usd === undefined ? '' : `, $${usage.usd.toFixed(4)}`;
  const tokens = `${usage.inputTokens} + ${usage.outputTokens} tokens${cost}`;
  say(harmless(`${ended}${reason === undefined ? '' : `: ${reason}`}`));
  say(harmless(`${usage.cycles} answers, ${tokens}, ${modifiedFiles.length} files changed; task ${taskId}`));
  return EXITS[ended];
}
