/** `ringfence tasks list|show|cancel`: tasks of sub-agents, and their transcripts. */

import { showBlock, showLine } from '../../base/text/shown-text.ts';
import type { Client } from '../../client/client.ts';
import type { ListedTask, ShownTask } from '../../services/agents/task-store.ts';
import { idOf, shortId } from '../ids.ts';
import { EXIT, type JsonFlag, print, printJson, printRows, say } from '../output.ts';

type TasksClient = Pick<Client, 'request'>;

/** Most lines of one text of a transcript. */
const LINES_MAX = 40;
const PROMPT_CHARS_MAX = 80;

/** Lists tasks, the newest first. Returns the exit code. */
export async function tasksList({ json, limit }: JsonFlag & { limit?: number }, client: TasksClient): Promise<number> {
  const tasks = await listed(client, limit);
  return printRows(tasks, json, 'no tasks were delegated', (it) => showLine(lineOf(it)));
}

/** Prints a task with its transcript. Returns the exit code. */
export async function tasksShow(id: string, { json }: JsonFlag, client: TasksClient): Promise<number> {
  const taskId = await taskIdOf(id, client);
  const task = await client.request('tasks.show', { taskId });
  if (json) printJson(task);
  else for (const it of linesOf(task)) print(it);
  return EXIT.OK;
}

/** Cancels a task. Returns the exit code: 1 if it does not run. */
export async function tasksCancel(id: string, { json }: JsonFlag, client: TasksClient): Promise<number> {
  const taskId = await taskIdOf(id, client);
  const { cancelled } = await client.request('tasks.cancel', { taskId });
  if (json) printJson({ taskId, cancelled });
  else say(showLine(cancelled ? `cancelled ${taskId}` : `no task ${taskId} is running`));
  return cancelled ? EXIT.OK : EXIT.FAILED;
}

async function listed(client: TasksClient, limit?: number): Promise<readonly ListedTask[]> {
  const asked = limit === undefined ? {} : { limit };
  return (await client.request('tasks.list', asked)).tasks;
}

/** The task id that `text` abbreviates. Throws UsageError if it is ambiguous. */
const taskIdOf = async (text: string, client: TasksClient): Promise<string> =>
  idOf(
    text,
    (await listed(client, TASKS_MAX)).map((it) => it.taskId),
  );

/** The most that the daemon lists. */
const TASKS_MAX = 200;

function lineOf({ taskId, startedAt, ended, agent, prompt, calls = 0 }: ListedTask): string {
  const [first = ''] = prompt.split('\n');
  const what = first.length <= PROMPT_CHARS_MAX ? first : `${first.slice(0, PROMPT_CHARS_MAX)}…`;
  return `${shortId(taskId)}  ${startedAt}  ${(ended ?? 'running').padEnd(9)}  ${agent}  ${calls} calls  ${what}`;
}

interface Entry {
  readonly kind: string;
  readonly text?: string;
  readonly calls?: readonly { readonly tool: string; readonly input: unknown }[];
  readonly tool?: string;
  readonly success?: boolean;
}

function linesOf({ prompt, transcript, truncated, ended, reason, ...task }: ShownTask): string[] {
  const { taskId, callId, agent, model, workspace } = task;
  return [
    showLine(`task ${taskId} of call ${callId}`),
    showLine(`${agent} (${model}) in ${workspace}: ${ended ?? 'running'}${reason === undefined ? '' : `: ${reason}`}`),
    '\n> task',
    ...showBlock(prompt, LINES_MAX),
    ...(transcript as readonly Entry[]).flatMap(entryLines),
    ...(truncated ? ['\n[the rest is left out: the transcript is too long]'] : []),
  ];
}

function entryLines({ kind, text = '', calls = [], tool = '', success }: Entry): string[] {
  if (kind === 'end') return [];
  const title = kind === 'result' ? `${tool} ${success ? 'ok' : 'failed'}` : 'model';
  return [
    `\n> ${showLine(title)}`,
    ...(text === '' ? [] : showBlock(text, LINES_MAX)),
    ...calls.map((it) => showLine(`→ ${it.tool} ${JSON.stringify(it.input)}`)),
  ];
}
