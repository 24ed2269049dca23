/** The loop of a sub-agent: what it reads of streams in both dialects, and what it asks for. */
import { describe, expect, test } from 'vitest';
import { defaultLimits } from '../../../../src/base/limits.ts';
import type { AnsweredAsk, ModelAsk } from '../../../../src/services/agents/messages.ts';
import { type ModelReply, streamOf } from '../../../../src/testing/model-reply.ts';
import { anthropic } from '../../../../workers/agent/anthropic.ts';
import { eventsIn } from '../../../../workers/agent/events.ts';
import { runLoop } from '../../../../workers/agent/loop.ts';
import { openai } from '../../../../workers/agent/openai.ts';

const LINE_CHARS = 200;
const read = (stream: string) => [...eventsIn(stream, LINE_CHARS)];
const chunk = (delta: object, more: object = {}) => `data: ${JSON.stringify({ choices: [{ delta, ...more }] })}\n\n`;
const openaiOf = (stream: string) => openai.read(eventsIn(stream, defaultLimits.modelLineChars));
const anthropicOf = (stream: string) => anthropic.read(eventsIn(stream, defaultLimits.modelLineChars));
const event = (fields: object) => `data: ${JSON.stringify(fields)}\n\n`;

describe('events', () => {
  test('events are read with any ends of lines, names, comments, and without the last empty line', () => {
    expect(
      read('event: a\r\n: a comment\r\ndata: {"a": 1}\r\n\r\ndata:{"b":\ndata:2}\n\ndata: [DONE]\n\ndata: {"c": 3}'),
    ).toEqual([{ a: 1 }, { b: 2 }, { c: 3 }]);
  });

  test('events of a line that is too long, or that hold no object, are refused', () => {
    expect(() => read(`data: {"a": "${'x'.repeat(LINE_CHARS)}"}\n\n`)).toThrow('a line of 215 characters; at most 200');
    for (const it of ['[1]', '7', '{"a":', 'null']) expect(() => read(`data: ${it}\n\n`)).toThrow('no JSON object');
  });
});

describe('chat completions', () => {
  test('without an index, with one for all calls, without ids, and with objects as arguments', () => {
    const call = (more: object) => chunk({ tool_calls: [more] });
    const f = (name: string, text: unknown) => ({ name, arguments: text });
    const shared =
      call({ id: 'x', function: f('a', '{}') }) +
      call({ id: 'y', function: f('b', '{"n"') }) +
      call({ function: { arguments: ':1}' } });
    expect(openaiOf(shared).calls).toEqual([
      { id: 'x', name: 'a', arguments: '{}' },
      { id: 'y', name: 'b', arguments: '{"n":1}' },
    ]);
    const bare = call({ index: 0, function: f('a', { n: 1 }) }) + call({ index: 1, function: f('b', '') });
    expect(openaiOf(bare).calls).toEqual([
      { id: 'call_0', name: 'a', arguments: '{"n":1}' },
      { id: 'call_1', name: 'b', arguments: '' },
    ]);
  });

  test('completions that were cut are read as cut; broken ones and those with too many calls are refused', () => {
    expect(openaiOf(chunk({ content: 'a' }, { finish_reason: 'length' }))).toEqual({ text: 'a', calls: [], cut: true });
    expect(() => openaiOf(event({ error: { message: 'overloaded' } }))).toThrow('broke off: overloaded');
    const many = Array.from({ length: 65 }, (_, index) => ({ index, function: { name: 'a', arguments: '{}' } }));
    expect(() => openaiOf(chunk({ tool_calls: many }))).toThrow('more than 64 calls');
  });

  test('completions of other shapes give nothing', () => {
    const odd = [
      { choices: 'none' },
      { choices: [null] },
      { choices: [{ delta: { tool_calls: [3, null, {}] } }] },
      { usage: null },
    ];
    expect(openaiOf(odd.map(event).join(''))).toMatchObject({ text: '', calls: [{ name: '', arguments: '' }] });
  });
});

describe('messages', () => {
  test('count cached input, and a call without parameters has none', () => {
    const stream = [
      { type: 'message_start', message: { usage: { input_tokens: 3, cache_read_input_tokens: 40, output_tokens: 1 } } },
      { type: 'content_block_start', index: 0, content_block: { type: 'tool_use', id: 't', name: 'a', input: {} } },
      { type: 'content_block_stop', index: 0 },
      { type: 'message_delta', delta: { stop_reason: 'max_tokens' }, usage: { output_tokens: 9 } },
    ];
    expect(anthropicOf(stream.map(event).join(''))).toEqual({
      text: '',
      calls: [{ id: 't', name: 'a', arguments: '{}' }],
      usage: { inputTokens: 43, outputTokens: 9 },
      cut: true,
    });
    expect(() => anthropicOf(event({ type: 'error', error: { type: 'overloaded_error' } }))).toThrow(
      'overloaded_error',
    );
  });
});

/** Runs a loop whose model answers by a script; gives what was asked. */
async function looped(replies: readonly ModelReply[], more: object = {}) {
  const asked: ModelAsk[] = [];
  const answered: AnsweredAsk[] = [];
  const result = await runLoop(
    { dialect: 'openai', system: 's', prompt: 'p', ...more },
    {
      askModel: async (it) => {
        asked.push(structuredClone(it));
        return { body: streamOf('openai', replies[Math.min(asked.length, replies.length) - 1] ?? {}, asked.length) };
      },
      answered: async (it) => {
        answered.push(it);
        return { results: it.calls.map(({ id }) => ({ id, text: `of ${id}`, success: true })), over: false };
      },
    },
    { ...defaultLimits, taskContextChars: 3_000, taskSchemaMs: 100 },
  );
  return { result, asked, answered };
}

describe('the loop', () => {
  test('sends results in the order of the calls, those that it could not read among them', async () => {
    const calls = [
      { name: 'a', rawArguments: '[1]' },
      { name: 'b', input: { n: 1 } },
      { name: 'c', rawArguments: '' },
    ];
    const { asked, answered, result } = await looped([{ calls }, { text: 'end' }]);
    expect(result).toEqual({ text: 'end' });
    expect(answered[0]).toMatchObject({
      calls: [
        { tool: 'b', input: { n: 1 } },
        { tool: 'c', input: {} },
      ],
      malformed: ['a'],
    });
    const results = asked[1]?.messages.slice(2) as { tool_call_id: string; content: string }[];
    expect(results.map((it) => it.tool_call_id)).toEqual(['call_1_0', 'call_1_1', 'call_1_2']);
    expect(results.map((it) => it.content)).toEqual([
      expect.stringContaining('no JSON object'),
      'of call_1_1',
      'of call_1_2',
    ]);
  });

  test('gives up after a second answer that can not be read, but not if one in between could', async () => {
    const bad = { calls: [{ name: 'a', rawArguments: '{' }] };
    const good = { calls: [{ name: 'a' }] };
    expect((await looped([bad, bad])).result.problem).toContain('twice in a row');
    expect((await looped([bad, good, bad, { text: 'end' }])).result).toEqual({ text: 'end' });
  });

  test('says what is wrong with a schema that can not be used', async () => {
    const { result } = await looped([{ text: '{}' }], { output: { type: 'nothing' } });
    expect(result.problem).toContain("the schema can't be used");
  });

  test('ends a pattern of the schema that takes for ever', async () => {
    const slow = { type: 'string', pattern: '^(a+)+$' };
    const { result } = await looped([{ text: JSON.stringify(`${'a'.repeat(40)}!`) }], { output: slow });
    expect(result.problem).toContain('took longer than 100 ms');
  });

  test('does not send a conversation that is too long', async () => {
    await expect(looped([{ text: 'x'.repeat(3_000), calls: [{ name: 'a' }] }])).rejects.toThrow(
      'at most 3000 are sent',
    );
  });
});
