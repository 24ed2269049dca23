/** Scripts of models by the tasks that they are given, so that several sub-agents may talk to one server at once. */
import type { ToolResult } from '../../src/base/call.ts';
import type { Client } from '../../src/client/client.ts';
import { type ModelReply, type ModelRequest, ModelServer } from '../../src/testing/model-server.ts';
import type { TaskOutput } from '../../src/tools/task/delegate.ts';

/** The answers to a task in their order; the last one is repeated. */
type TaskScript = readonly ModelReply[] | ((answer: number, request: ModelRequest) => ModelReply | Promise<ModelReply>);

export class ScriptedTasks implements AsyncDisposable {
  readonly #scripts = new Map<string, TaskScript>();
  readonly server: ModelServer;

  private constructor(scripts: Map<string, TaskScript>, server: ModelServer) {
    this.#scripts = scripts;
    this.server = server;
  }

  static async start(): Promise<ScriptedTasks> {
    const scripts = new Map<string, TaskScript>();
    const server = await ModelServer.start((request) => {
      const { task, answers } = conversationIn(request);
      const script = scripts.get(task);
      if (!script) return { status: 400, body: { error: { message: `no script for ${task}` } } };
      if (typeof script === 'function') return script(answers + 1, request);
      return script[Math.min(answers, script.length - 1)] ?? { text: 'done' };
    });
    return new ScriptedTasks(scripts, server);
  }

  /** Profiles of both dialects; `default` is that of OpenAI. */
  profiles(more: object = {}) {
    const profile = { url: this.server.url, model: 'scripted', ...more };
    return { default: { dialect: 'openai', ...profile }, claude: { dialect: 'anthropic', ...profile } };
  }

  /** Says what the model answers to a task. */
  on(task: string, script: TaskScript): void {
    this.#scripts.set(task, script);
  }

  /** Requests about a task, the first one first. */
  requestsOf(task: string): ModelRequest[] {
    return this.server.requests.filter((it) => conversationIn(it).task === task);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.server[Symbol.asyncDispose]();
  }
}

interface Message {
  readonly role: string;
  readonly content: unknown;
}

function conversationIn({ body }: ModelRequest): { task: string; answers: number } {
  const messages = body.messages as Message[];
  const task = String(messages.find((it) => it.role === 'user')?.content);
  return { task: task.split('\n')[0] as string, answers: messages.filter((it) => it.role === 'assistant').length };
}

/** What the tools said to the model, as its last request has it. */
export function resultsIn(requests: readonly ModelRequest[]): string[] {
  const messages = (requests.at(-1)?.body.messages ?? []) as Message[];
  return messages.flatMap(({ role, content }) => {
    if (role === 'tool') return [String(content)];
    if (!Array.isArray(content)) return [];
    return (content as { type: string; content?: string }[])
      .filter((it) => it.type === 'tool_result')
      .map((it) => it.content ?? '');
  });
}

export const delegate = (client: Client, prompt: string, more: object = {}): Promise<ToolResult<TaskOutput>> =>
  Promise.resolve(client.call('task_delegate', { prompt, ...more })) as Promise<ToolResult<TaskOutput>>;

/** The data of a task whose call succeeded. */
export async function taskData(running: Promise<ToolResult<TaskOutput>>): Promise<TaskOutput> {
  const result = await running;
  if (!result.success) throw new Error(`${result.error.code}: ${result.error.message}`);
  return result.data;
}
