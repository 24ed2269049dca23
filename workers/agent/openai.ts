/** Chat completions, as OpenAI, Ollama, llama.cpp, vLLM, OpenRouter and others serve them. */
import { isRecord } from '../../src/base/text/values.ts';
import { assertNoError, CallPieces, countOf, type Dialect, type ModelAnswer, textOf } from './dialect.ts';

export const openai: Dialect = {
  read(events): ModelAnswer {
    const text: string[] = [];
    const calls = new CallPieces();
    let usage: ModelAnswer['usage'];
    let cut = false;
    for (const event of events) {
      assertNoError(event);
      if (isRecord(event.usage))
        usage = {
          inputTokens: countOf(event.usage.prompt_tokens),
          outputTokens: countOf(event.usage.completion_tokens),
        };
      const [choice] = Array.isArray(event.choices) ? (event.choices as unknown[]) : [];
      if (!isRecord(choice)) continue;
      cut ||= choice.finish_reason === 'length';
      if (!isRecord(choice.delta)) continue;
      text.push(textOf(choice.delta.content));
      const deltas = Array.isArray(choice.delta.tool_calls) ? (choice.delta.tool_calls as unknown[]) : [];
      for (const it of deltas) if (isRecord(it)) takeDelta(it, calls);
    }
    return { text: text.join(''), calls: calls.toCalls(), cut, usage };
  },

  ofUser: (content) => ({ role: 'user', content }),

  ofAnswer: ({ text, calls }) => ({
    role: 'assistant',
    content: text === '' ? null : text,
    ...(calls.length > 0 && {
      tool_calls: calls.map(({ id, name, input }) => ({
        id,
        type: 'function',
        function: { name, arguments: JSON.stringify(input) },
      })),
    }),
  }),

  ofResults: (results) => results.map(({ id, text }) => ({ role: 'tool', tool_call_id: id, content: text })),
};

/** Takes a piece of a call. Some servers leave out the index, or give each whole call the same one with another id. */
function takeDelta({ index = 0, id, function: part }: Record<string, unknown>, calls: CallPieces): void {
  const { name, arguments: piece } = isRecord(part) ? part : {};
  const known = calls.idOf(index);
  const isOther = textOf(id) !== '' && textOf(name) !== '' && id !== known;
  if (known === undefined || isOther) calls.begin(index, { id, name });
  calls.add(index, typeof piece === 'object' && piece !== null ? JSON.stringify(piece) : piece);
}
