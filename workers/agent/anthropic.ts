/** Messages, as Anthropic serves them. */
import { isRecord } from '../../src/base/text/values.ts';
import { assertNoError, CallPieces, countOf, type Dialect, type ModelAnswer, textOf } from './dialect.ts';

/** Counts of tokens that are input, whether the server had them already or not. */
const INPUT = ['input_tokens', 'cache_creation_input_tokens', 'cache_read_input_tokens'];

export const anthropic: Dialect = {
  read(events): ModelAnswer {
    const text: string[] = [];
    const calls = new CallPieces();
    let usage: ModelAnswer['usage'];
    let cut = false;
    for (const event of events) {
      assertNoError(event);
      const { type, index, message, content_block: block, delta, usage: counts } = event;
      const said = isRecord(message) ? message.usage : counts;
      if (isRecord(said)) usage = joined(usage, said);
      if (type === 'content_block_start' && isRecord(block)) {
        if (block.type === 'tool_use') calls.begin(index, { id: block.id, name: block.name });
        else text.push(textOf(block.text));
      }
      if (!isRecord(delta)) continue;
      if (type === 'content_block_delta') {
        text.push(textOf(delta.text));
        calls.add(index, delta.partial_json);
      }
      cut ||= delta.stop_reason === 'max_tokens';
    }
    // A call without parameters comes without a piece of them.
    const whole = calls.toCalls().map((it) => ({ ...it, arguments: it.arguments === '' ? '{}' : it.arguments }));
    return { text: text.join(''), calls: whole, cut, usage };
  },

  ofUser: (content) => ({ role: 'user', content }),

  ofAnswer: ({ text, calls }) => ({
    role: 'assistant',
    content: [
      ...(text === '' ? [] : [{ type: 'text', text }]),
      ...calls.map(({ id, name, input }) => ({ type: 'tool_use', id, name, input })),
    ],
  }),

  ofResults: (results) => [
    {
      role: 'user',
      content: results.map(({ id, text, success }) => ({
        type: 'tool_result',
        tool_use_id: id,
        content: text,
        ...(!success && { is_error: true }),
      })),
    },
  ],
};

/** The counts so far: those of the input come first, those of the output grow. */
function joined(before: ModelAnswer['usage'], said: Record<string, unknown>): NonNullable<ModelAnswer['usage']> {
  const inputTokens = INPUT.reduce((sum, name) => sum + countOf(said[name]), 0);
  return {
    inputTokens: inputTokens > 0 ? inputTokens : (before?.inputTokens ?? 0),
    outputTokens: Math.max(before?.outputTokens ?? 0, countOf(said.output_tokens)),
  };
}
