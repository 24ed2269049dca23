/** The adapters for agent frameworks, with the frameworks themselves and models that follow a script. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type ToolCall, ToolMessage } from '@langchain/core/messages';
import { FakeStreamingChatModel } from '@langchain/core/utils/testing';
import { Agent, type AgentOutputItem, type Model, Runner, setTracingDisabled, Usage } from '@openai/agents';
import { generateText, stepCountIs } from 'ai';
import { MockLanguageModelV4 } from 'ai/test';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { ringfenceTools as aiTools } from '../../src/client/adapters/ai.ts';
import { ringfenceTools as langchainTools } from '../../src/client/adapters/langchain.ts';
import { ringfenceTools as openAiTools } from '../../src/client/adapters/openai-agents.ts';
import type { CallRecord, Client, ToolResult } from '../../src/client/client.ts';
import { type OpenDaemon, openDaemon, until } from '../support/daemon.ts';

vi.setConfig({ testTimeout: 90_000 });

let daemon: OpenDaemon;
let client: Client;
beforeAll(async () => {
  setTracingDisabled(true);
  daemon = await openDaemon();
  client = await daemon.connect();
  writeFileSync(join(daemon.workspace, 'a.txt'), 'one\n');
  await untilCommandsRun(client);
}, 150_000);
afterAll(async () => {
  await client[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});

/** Waits for the host of commands, which takes longer to start on a busy machine than a call waits for it. */
const untilCommandsRun = (by: Client) =>
  until(async () => (await by.call('terminal_execute', { command: 'id' })).success, 120_000);

interface ScriptedCall {
  readonly id: string;
  readonly name: string;
  readonly input: object;
}
/** A command that runs until the file `NAME.go` is there, beside one that makes it: only at once do both end. */
const TOGETHER = (name: string): ScriptedCall[] => [
  {
    id: `${name}1`,
    name: 'terminal_execute',
    input: { command: `until [ -e ${name}.go ]; do sleep 0.01; done; echo met` },
  },
  { id: `${name}2`, name: 'terminal_execute', input: { command: `touch ${name}.go` } },
];
const long = (name: string): ScriptedCall => ({
  id: `${name}-long`,
  name: 'terminal_execute',
  input: { command: `touch ${name}.begun; sleep 60` },
});
const isBegun = (name: string) => existsSync(join(daemon.workspace, `${name}.begun`));
const stateOf = async (callId: string): Promise<CallRecord['state']['status']> =>
  (await client.record(callId)).state.status;
const isCancelled = async (callId: string) => (await stateOf(callId)) === 'cancelled';

describe('the Vercel AI SDK', () => {
  const usage = {
    inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
    outputTokens: { total: 1, text: 1, reasoning: 0 },
  };
  const asks = (calls: readonly ScriptedCall[]) => ({
    content: calls.map(({ id, name, input }) => ({
      type: 'tool-call' as const,
      toolCallId: id,
      toolName: name,
      input: JSON.stringify(input),
    })),
    finishReason: { unified: 'tool-calls' as const, raw: undefined },
    usage,
    warnings: [],
  });
  const says = (text: string) => ({
    content: [{ type: 'text' as const, text }],
    finishReason: { unified: 'stop' as const, raw: undefined },
    usage,
    warnings: [],
  });
  const run = async (model: MockLanguageModelV4, abortSignal?: AbortSignal) =>
    generateText({
      model,
      tools: await aiTools(client),
      stopWhen: stepCountIs(4),
      prompt: 'go',
      ...(abortSignal && { abortSignal }),
    });

  test('a model gets the text of what it asked for, refusals too, and the program the result', async () => {
    const calls = [
      { id: 'ai-read', name: 'file_read', input: { path: 'a.txt' } },
      { id: 'ai-env', name: 'file_read', input: { path: '.env' } },
    ];
    const model = new MockLanguageModelV4({ doGenerate: [asks(calls), says('done')] });
    const { text, steps } = await run(model);
    expect(text).toBe('done');
    const results = steps[0]?.toolResults.map((it) => it.output as ToolResult);
    expect(results).toMatchObject([
      { callId: 'ai-read', success: true, data: { content: 'one\n' } },
      { callId: 'ai-env', success: false, error: { code: 'SENSITIVE_FILE' } },
    ]);
    expect(model.doGenerateCalls[1]?.prompt.at(-1)).toMatchObject({
      role: 'tool',
      content: [
        { toolCallId: 'ai-read', output: { type: 'text', value: 'one\n' } },
        { toolCallId: 'ai-env', output: { type: 'error-text', value: expect.stringMatching(/^SENSITIVE_FILE: /) } },
      ],
    });
    expect(model.doGenerateCalls[0]?.tools?.find((it) => it.name === 'file_read')).toMatchObject({
      inputSchema: { required: ['path'] },
    });
  });

  test('calls of one turn run at once; the id of the model makes one run once', async () => {
    const append = { id: 'ai-once', name: 'terminal_execute', input: { command: 'echo x >>ai-once; cat ai-once' } };
    const model = new MockLanguageModelV4({
      doGenerate: [asks(TOGETHER('ai')), asks([append]), asks([append]), says('done')],
    });
    const { steps } = await run(model);
    expect(steps[0]?.toolResults[0]?.output).toMatchObject({ data: { stdout: 'met\n' } });
    expect(readFileSync(join(daemon.workspace, 'ai-once'), 'utf8')).toBe('x\n');
  });

  test('aborting cancels the call', async () => {
    const model = new MockLanguageModelV4({ doGenerate: [asks([long('ai')]), says('never')] });
    const abort = new AbortController();
    const running = run(model, abort.signal);
    running.catch(() => {}); // Awaited below.
    await until(() => isBegun('ai'));
    abort.abort();
    await running.catch(() => {}); // It may also end with the step that was cut.
    await until(() => isCancelled('ai-long'));
  });

  test('a call that the policy asks about waits for a person, and goes on with the answer', async () => {
    await using asking = await openDaemon({
      policy: 'tiers:\n  execute: { decision: ask }\napprovals: { headless: wait }\n',
    });
    await using agent = await asking.connect();
    await using person = await asking.connect({ role: 'operator' });
    using _watch = await person.onApproval(() => ({ decision: 'approve' }));
    await untilCommandsRun(agent);
    const call = { id: 'ai-asked', name: 'terminal_execute', input: { command: 'id >/dev/null; echo allowed' } };
    const model = new MockLanguageModelV4({ doGenerate: [asks([call]), says('done')] });
    const { steps } = await generateText({
      model,
      tools: await aiTools(agent),
      stopWhen: stepCountIs(2),
      prompt: 'go',
    });
    expect(steps[0]?.toolResults[0]?.output).toMatchObject({
      data: { stdout: 'allowed\n' },
      metadata: { approvalGranted: true },
    });
  });
});

describe('the OpenAI Agents SDK', () => {
  /** A model that gives these outputs in turn, and keeps what it was asked. */
  function scripted(outputs: readonly AgentOutputItem[][]): Model & { asked: unknown[] } {
    const asked: unknown[] = [];
    return {
      asked,
      getResponse: async (request) => {
        asked.push(request.input);
        return { usage: new Usage(), output: outputs[asked.length - 1] ?? [] };
      },
      getStreamedResponse: () => {
        throw new Error('no run of these tests streams');
      },
    };
  }
  const asks = (calls: readonly ScriptedCall[]): AgentOutputItem[] =>
    calls.map(({ id, name, input }) => ({
      type: 'function_call',
      callId: id,
      name,
      status: 'completed',
      arguments: JSON.stringify(input),
    }));
  const says = (text: string): AgentOutputItem[] => [
    { type: 'message', role: 'assistant', status: 'completed', content: [{ type: 'output_text', text }] },
  ];
  const run = async (model: Model, signal?: AbortSignal) =>
    new Runner().run(
      new Agent({ name: 'test', model, tools: await openAiTools(client) }),
      'go',
      signal ? { signal } : {},
    );

  test('a model gets the text of what it asked for, refusals too, and calls of one turn run at once', async () => {
    const calls = [
      ...TOGETHER('oa'),
      { id: 'oa-read', name: 'file_read', input: { path: 'a.txt' } },
      { id: 'oa-env', name: 'file_read', input: { path: '.env' } },
    ];
    const model = scripted([asks(calls), says('done')]);
    expect((await run(model)).finalOutput).toBe('done');
    const outputs = (model.asked[1] as { type: string; callId: string; output: { text: string } }[])
      .filter((it) => it.type === 'function_call_result')
      .map((it) => [it.callId, it.output.text]);
    expect(Object.fromEntries(outputs)).toMatchObject({
      oa1: expect.stringMatching(/^met\n/),
      'oa-read': 'one\n',
      'oa-env': expect.stringMatching(/^SENSITIVE_FILE: /),
    });
  });

  test('the id of the model makes a call run once, and aborting cancels one', async () => {
    const append = { id: 'oa-once', name: 'terminal_execute', input: { command: 'echo x >>oa-once' } };
    await run(scripted([asks([append]), says('done')]));
    await run(scripted([asks([append]), says('done')]));
    expect(readFileSync(join(daemon.workspace, 'oa-once'), 'utf8')).toBe('x\n');
    const abort = new AbortController();
    const running = run(scripted([asks([long('oa')]), says('never')]), abort.signal);
    running.catch(() => {}); // Awaited below.
    await until(() => isBegun('oa'));
    abort.abort();
    await running.catch(() => {}); // It may also end with the turn that was cut.
    await until(() => isCancelled('oa-long'));
  });
});

describe('LangChain', () => {
  const toolNamed = async (name: string) => {
    const found = (await langchainTools(client)).find((it) => it.name === name);
    if (!found) throw new Error(`no tool ${name}`);
    return found;
  };
  const asked = ({ id, name, input: args }: ScriptedCall): ToolCall => ({
    type: 'tool_call',
    id,
    name,
    args: args as Record<string, unknown>,
  });

  test('a tool answers a tool call with a message: the text, and the result as its artifact', async () => {
    const read = await toolNamed('file_read');
    const message: unknown = await read.invoke(asked({ id: 'lc-read', name: 'file_read', input: { path: 'a.txt' } }));
    expect(message).toBeInstanceOf(ToolMessage);
    expect(message).toMatchObject({
      content: 'one\n',
      tool_call_id: 'lc-read',
      artifact: { callId: 'lc-read', success: true, data: { content: 'one\n' } },
    });
    expect(await read.invoke({ path: '.env' })).toMatch(/^SENSITIVE_FILE: /);
  });

  test('a chat model takes the tools', async () => {
    const tools = await langchainTools(client);
    expect(new FakeStreamingChatModel({ toolStyle: 'openai' }).bindTools(tools)).toBeDefined();
  });

  test('calls run at once, the id of the model makes one run once, and aborting cancels one', async () => {
    const execute = await toolNamed('terminal_execute');
    const messages: unknown[] = await Promise.all(TOGETHER('lc').map((it) => execute.invoke(asked(it))));
    expect(messages[0]).toMatchObject({ content: expect.stringMatching(/^met\n/) });
    const append = { id: 'lc-once', name: 'terminal_execute', input: { command: 'echo x >>lc-once' } };
    for (const _ of [1, 2]) await execute.invoke(asked(append));
    expect(readFileSync(join(daemon.workspace, 'lc-once'), 'utf8')).toBe('x\n');
    const abort = new AbortController();
    const running = execute.invoke(asked(long('lc')), { signal: abort.signal });
    running.catch(() => {}); // Awaited below.
    await until(() => isBegun('lc'));
    abort.abort();
    await expect(running).rejects.toThrow(/abort|cancel/i);
    await until(() => isCancelled('lc-long'));
  });
});
