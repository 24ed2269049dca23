/** What is sent to models and read from them, compared with the clients that the makers of both dialects publish. */
import Anthropic from '@anthropic-ai/sdk';
import fc from 'fast-check';
import OpenAI from 'openai';
import { expect, test } from 'vitest';
import { requestBody } from '../../../src/services/agents/request-body.ts';
import type { AgentProfile } from '../../../src/services/agents/settings.ts';
import { type Dialect, type ModelReply, streamOf } from '../../../src/testing/model-reply.ts';
import { ModelServer } from '../../../src/testing/model-server.ts';
import { anthropic } from '../../../workers/agent/anthropic.ts';
import { Conversation } from '../../../workers/agent/conversation.ts';
import { eventsIn } from '../../../workers/agent/events.ts';
import { openai } from '../../../workers/agent/openai.ts';

const OURS = { openai, anthropic };
const profileOf = (dialect: Dialect, url: string): AgentProfile => ({
  name: 'default',
  dialect,
  url,
  model: 'any',
  maxOutputTokens: 100,
  network: [],
});

/** An answer in terms of both: texts, calls with their parameters, tokens. */
interface Understood {
  readonly text: string;
  readonly calls: readonly (readonly [string, string, unknown])[];
  readonly tokens: readonly (number | undefined)[];
}

const parsed = (json: string): unknown => JSON.parse(json === '' ? '{}' : json);

function ours(dialect: Dialect, reply: ModelReply, number: number): Understood {
  const { text, calls, usage } = OURS[dialect].read(eventsIn(streamOf(dialect, reply, number), 1_000_000));
  const read = calls.map((it) => [it.id, it.name, parsed(it.arguments)] as const);
  return { text, calls: read, tokens: [usage?.inputTokens, usage?.outputTokens] };
}

async function theirs(dialect: Dialect, { url }: ModelServer): Promise<Understood> {
  if (dialect === 'anthropic') {
    const client = new Anthropic({ apiKey: 'none', baseURL: url.replace(/\/v1$/, ''), maxRetries: 0 });
    const asked = { model: 'any', max_tokens: 1, messages: [{ role: 'user' as const, content: 'x' }] };
    const { content, usage } = await client.messages.stream(asked).finalMessage();
    const calls = content.flatMap((it) => (it.type === 'tool_use' ? [[it.id, it.name, it.input] as const] : []));
    const text = content.flatMap((it) => (it.type === 'text' ? [it.text] : [])).join('');
    return { text, calls, tokens: [usage.input_tokens, usage.output_tokens] };
  }
  const client = new OpenAI({ apiKey: 'none', baseURL: url, maxRetries: 0 });
  const stream = client.chat.completions.stream({ model: 'any', messages: [{ role: 'user', content: 'x' }] });
  const { choices, usage } = await stream.finalChatCompletion();
  const calls = (choices[0]?.message.tool_calls ?? []).flatMap((it) =>
    'function' in it ? [[it.id, it.function.name, parsed(it.function.arguments)] as const] : [],
  );
  return { text: choices[0]?.message.content ?? '', calls, tokens: [usage?.prompt_tokens, usage?.completion_tokens] };
}

const call = fc.record({
  name: fc.constantFrom('file_read', 'file_write'),
  input: fc.dictionary(
    fc.string({ unit: 'grapheme', maxLength: 5 }).filter((it) => it !== '__proto__'),
    fc.jsonValue({ maxDepth: 2 }),
    { maxKeys: 3 },
  ),
});
const reply = fc.record({
  text: fc.string({ unit: 'grapheme', minLength: 1, maxLength: 30 }),
  calls: fc.array(call, { maxLength: 3 }),
  deltaChars: fc.integer({ min: 1, max: 5 }),
  usage: fc.record({ inputTokens: fc.integer({ min: 1, max: 999 }), outputTokens: fc.integer({ min: 1, max: 999 }) }),
});

test.each(['openai', 'anthropic'] as const)('%s: any answer is read as its maker reads it', async (dialect) => {
  let next: ModelReply = {};
  await using server = await ModelServer.start(() => next);
  await fc.assert(
    fc.asyncProperty(reply, async (it) => {
      next = it;
      const understood = await theirs(dialect, server);
      // Both makers write their JSON as plain data.
      expect(JSON.stringify(ours(dialect, it, server.requests.length))).toBe(JSON.stringify(understood));
    }),
    { numRuns: 40 },
  );
});

/** A conversation with all kinds of messages. */
function conversationIn(dialect: Dialect): object[] {
  const conversation = new Conversation(OURS[dialect], 100_000);
  conversation.user('Look.');
  conversation.answer({
    text: 'I look.',
    calls: [
      { id: 'c1', name: 'file_read', input: { path: 'ä' } },
      { id: 'c2', name: 'file_list', input: {} },
    ],
  });
  conversation.results([
    { id: 'c1', text: 'one\n', success: true },
    { id: 'c2', text: 'no', success: false },
  ]);
  conversation.answer({ text: 'Done.', calls: [] });
  conversation.user('And now?');
  return conversation.messages;
}

test.each(['openai', 'anthropic'] as const)('%s: the client of its maker sends the same request', async (dialect) => {
  await using server = await ModelServer.start([{ text: 'ok' }]);
  const tools =
    dialect === 'openai'
      ? [{ type: 'function', function: { name: 'file_read', parameters: { type: 'object', properties: {} } } }]
      : [{ name: 'file_read', input_schema: { type: 'object', properties: {} } }];
  const turn = { system: 'Be brief.', messages: conversationIn(dialect), tools, maxOutputTokens: 7 };
  const body = requestBody(profileOf(dialect, server.url), turn);
  if (dialect === 'openai') {
    const client = new OpenAI({ apiKey: 'none', baseURL: server.url, maxRetries: 0 });
    const asked = JSON.parse(body) as OpenAI.ChatCompletionCreateParamsStreaming;
    for await (const _ of await client.chat.completions.create(asked));
  } else {
    const client = new Anthropic({ apiKey: 'none', baseURL: server.url.replace(/\/v1$/, ''), maxRetries: 0 });
    const asked = JSON.parse(body) as Anthropic.MessageCreateParamsStreaming;
    for await (const _ of await client.messages.create(asked));
  }
  expect(server.requests[0]?.body).toEqual(JSON.parse(body));
  expect(Object.hasOwn(server.requests[0]?.headers ?? {}, 'anthropic-version')).toBe(dialect === 'anthropic');
});

test('openai: its newer models take another name for the longest answer, which other servers do not know', () => {
  const turn = { system: '', messages: [], tools: [], maxOutputTokens: 7 };
  expect(JSON.parse(requestBody(profileOf('openai', 'https://api.openai.com/v1'), turn))).toMatchObject({
    max_completion_tokens: 7,
  });
  expect(JSON.parse(requestBody(profileOf('openai', 'http://127.0.0.1/v1'), turn))).toMatchObject({ max_tokens: 7 });
});

test.each(['openai', 'anthropic'] as const)(
  '%s: the temperature of a profile is sent, and none without one',
  (dialect) => {
    const turn = { system: '', messages: [], tools: [], maxOutputTokens: 7 };
    const profile = profileOf(dialect, 'http://127.0.0.1/v1');
    expect(JSON.parse(requestBody({ ...profile, temperature: 0.2 }, turn))).toMatchObject({ temperature: 0.2 });
    expect(JSON.parse(requestBody(profile, turn))).not.toHaveProperty('temperature');
  },
);
