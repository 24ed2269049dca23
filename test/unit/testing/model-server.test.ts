/** The scripted model server, read by the clients that the makers of both dialects publish. */
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { describe, expect, test } from 'vitest';
import { type ModelReply, ModelServer } from '../../../src/testing/model-server.ts';

const REPLY: ModelReply = {
  text: 'Grüße 👋 to you',
  calls: [
    { name: 'file_read', input: { path: 'ä.txt' } },
    { name: 'file_list', input: {} },
  ],
  usage: { inputTokens: 12, outputTokens: 34 },
  deltaChars: 1,
};
const ARGUMENTS = ['{"path":"ä.txt"}', '{}'];

/** The answer as the client of OpenAI understands it. */
async function askOpenai({ url }: ModelServer) {
  const client = new OpenAI({ apiKey: 'none', baseURL: url, maxRetries: 0 });
  const stream = client.chat.completions.stream({
    model: 'any',
    messages: [{ role: 'user', content: 'hello' }],
    stream_options: { include_usage: true },
  });
  const { choices, usage } = await stream.finalChatCompletion();
  const calls = choices[0]?.message.tool_calls ?? [];
  return {
    text: choices[0]?.message.content,
    names: calls.map((it) => 'function' in it && it.function.name),
    arguments: calls.map((it) => 'function' in it && it.function.arguments),
    tokens: [usage?.prompt_tokens, usage?.completion_tokens],
    end: choices[0]?.finish_reason,
  };
}

/** The answer as the client of Anthropic understands it. */
async function askAnthropic({ url }: ModelServer) {
  const client = new Anthropic({ apiKey: 'none', baseURL: url.replace(/\/v1$/, ''), maxRetries: 0 });
  const asked = { model: 'any', max_tokens: 100, messages: [{ role: 'user' as const, content: 'hello' }] };
  const message = await client.messages.stream(asked).finalMessage();
  const calls = message.content.filter((it) => it.type === 'tool_use');
  return {
    text: message.content.find((it) => it.type === 'text')?.text,
    names: calls.map((it) => it.name),
    arguments: calls.map((it) => JSON.stringify(it.input)),
    tokens: [message.usage.input_tokens, message.usage.output_tokens],
    end: message.stop_reason,
  };
}

describe.each([
  ['openai', askOpenai, 'tool_calls'],
  ['anthropic', askAnthropic, 'tool_use'],
] as const)('%s', (_dialect, ask, end) => {
  test.each([undefined, 1, 7])('streams text and parallel calls, %s bytes at a time', async (writeBytes) => {
    await using server = await ModelServer.start([{ ...REPLY, ...(writeBytes !== undefined && { writeBytes }) }]);
    const names = ['file_read', 'file_list'];
    expect(await ask(server)).toEqual({ text: REPLY.text, names, arguments: ARGUMENTS, tokens: [12, 34], end });
    expect(server.requests).toHaveLength(1);
  });

  test('answers with a status', async () => {
    await using server = await ModelServer.start([{ status: 429, headers: { 'retry-after': '1' } }]);
    await expect(ask(server)).rejects.toMatchObject({ status: 429 });
  });

  test('breaks a connection', async () => {
    await using server = await ModelServer.start([{ ...REPLY, breakAfterBytes: 300 }]);
    await expect(ask(server)).rejects.toThrow(/terminated|error|ended|aborted/i);
  });
});

test('answers in the order of the script, repeats the last answer, and keeps the requests', async () => {
  await using server = await ModelServer.start([{ text: 'first' }, { text: 'last' }]);
  const texts: unknown[] = [];
  for (let at = 0; at < 3; at++) texts.push((await askOpenai(server)).text);
  expect(texts).toEqual(['first', 'last', 'last']);
  expect(server.requests.map(({ dialect, body }) => [dialect, body.model])).toEqual(Array(3).fill(['openai', 'any']));
});

test('answers by a function, also without a stream', async () => {
  await using server = await ModelServer.start(({ dialect }, number) => ({ text: `${dialect} ${number}` }));
  const ask = async (path: string) => {
    const answer = await fetch(`${server.url}/${path}`, { method: 'POST', body: '{}' });
    return JSON.stringify(await answer.json());
  };
  expect(await ask('chat/completions')).toContain('openai 1');
  expect(await ask('messages')).toContain('anthropic 2');
});
