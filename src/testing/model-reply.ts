/** What a scripted model answers, written as the servers of both dialects would stream it. */
import { jsonOr } from '../base/text/json.ts';

export type Dialect = 'openai' | 'anthropic';

/** A tool call of a model. */
export interface ScriptedCall {
  readonly name: string;
  /** The arguments; `rawArguments` gives their text instead, which may be no JSON. */
  readonly input?: unknown;
  readonly rawArguments?: string;
  /** Made up from the position when absent. */
  readonly id?: string;
}

/** One answer of a scripted model; everything has a default. */
export interface ModelReply {
  readonly text?: string;
  readonly calls?: readonly ScriptedCall[];
  /** Tokens that are reported; null leaves the report out. */
  readonly usage?: { readonly inputTokens: number; readonly outputTokens: number } | null;
  /** False leaves out the reason why the answer ended. */
  readonly finish?: boolean;
  /** Characters of one delta of the text or the arguments (default: 8). */
  readonly deltaChars?: number;
  /** An HTTP status other than 200, with `body` as JSON. */
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
  /** Bytes of one write of the stream (default: all at once). */
  readonly writeBytes?: number;
  /** Sends so many bytes, and then nothing more: the connection stays open. */
  readonly stallAfterBytes?: number;
  /** Sends so many bytes, and then breaks the connection. */
  readonly breakAfterBytes?: number;
  /** Goes on with deltas of text until the client leaves. */
  readonly endless?: boolean;
}

interface NumberedCall {
  readonly id: string;
  readonly name: string;
  readonly text: string;
}

const callsOf = ({ calls = [] }: ModelReply, answer: number): NumberedCall[] =>
  calls.map(({ name, id, input, rawArguments }, at) => ({
    id: id ?? `call_${answer}_${at}`,
    name,
    text: rawArguments ?? JSON.stringify(input ?? {}),
  }));

/** The events of a streamed answer; `answer` is the number of the answer in the conversation. */
export function streamOf(dialect: Dialect, reply: ModelReply, answer: number): string {
  return dialect === 'openai' ? openaiStream(reply, answer) : anthropicStream(reply, answer);
}

/** One more delta of text, for a stream without an end. */
export function endlessDelta(dialect: Dialect, answer: number): string {
  if (dialect === 'openai') return openaiChunk(answer, { content: 'more ' });
  return anthropicEvent('content_block_delta', { index: 0, delta: { type: 'text_delta', text: 'more ' } });
}

/** The whole answer as one JSON value, for requests that are not streamed. */
export function messageOf(dialect: Dialect, reply: ModelReply, answer: number): object {
  return dialect === 'openai' ? openaiMessage(reply, answer) : anthropicMessage(reply, answer);
}

const MODEL = 'scripted';
const DELTA_CHARS = 8;

function piecesOf(text: string, chars = DELTA_CHARS): string[] {
  const all = Array.from(text);
  const count = Math.ceil(all.length / chars);
  return Array.from({ length: count }, (_, at) => all.slice(at * chars, (at + 1) * chars).join(''));
}

const openaiUsage = ({ inputTokens, outputTokens }: NonNullable<ModelReply['usage']>): object => ({
  prompt_tokens: inputTokens,
  completion_tokens: outputTokens,
  total_tokens: inputTokens + outputTokens,
});

const DEFAULT_USAGE = { inputTokens: 10, outputTokens: 5 };

function openaiChunk(answer: number, delta: object, finish: string | null = null): string {
  const choices = [{ index: 0, delta, finish_reason: finish }];
  const chunk = { id: `answer_${answer}`, object: 'chat.completion.chunk', created: 0, model: MODEL, choices };
  return `data: ${JSON.stringify(chunk)}\n\n`;
}

function openaiStream(reply: ModelReply, answer: number): string {
  const { text, usage = DEFAULT_USAGE, finish = true, deltaChars, endless } = reply;
  const calls = callsOf(reply, answer);
  const events = [openaiChunk(answer, { role: 'assistant', content: '' })];
  for (const content of piecesOf(text ?? '', deltaChars)) events.push(openaiChunk(answer, { content }));
  for (const [index, { id, name }] of calls.entries())
    events.push(
      openaiChunk(answer, { tool_calls: [{ index, id, type: 'function', function: { name, arguments: '' } }] }),
    );
  // Deltas of parallel calls may come in any order, so they alternate here.
  const pieces = calls.map((it) => piecesOf(it.text, deltaChars));
  for (let at = 0; at < Math.max(0, ...pieces.map((it) => it.length)); at++)
    for (const [index, own] of pieces.entries())
      if (own[at] !== undefined)
        events.push(openaiChunk(answer, { tool_calls: [{ index, function: { arguments: own[at] } }] }));
  if (endless) return events.join('');
  if (finish) events.push(openaiChunk(answer, {}, calls.length > 0 ? 'tool_calls' : 'stop'));
  if (usage) {
    const report = { choices: [], usage: openaiUsage(usage) };
    const chunk = { id: `answer_${answer}`, object: 'chat.completion.chunk', created: 0, model: MODEL, ...report };
    events.push(`data: ${JSON.stringify(chunk)}\n\n`);
  }
  return `${events.join('')}data: [DONE]\n\n`;
}

function openaiMessage(reply: ModelReply, answer: number): object {
  const { text, usage = DEFAULT_USAGE } = reply;
  const calls = callsOf(reply, answer);
  const tool_calls = calls.map((it) => ({
    id: it.id,
    type: 'function',
    function: { name: it.name, arguments: it.text },
  }));
  const message = { role: 'assistant', content: text ?? null, ...(calls.length > 0 && { tool_calls }) };
  const choices = [{ index: 0, message, finish_reason: calls.length > 0 ? 'tool_calls' : 'stop' }];
  return {
    id: `answer_${answer}`,
    object: 'chat.completion',
    created: 0,
    model: MODEL,
    choices,
    ...(usage && { usage: openaiUsage(usage) }),
  };
}

const anthropicEvent = (type: string, fields: object): string =>
  `event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`;

function anthropicStream(reply: ModelReply, answer: number): string {
  const { text, usage = DEFAULT_USAGE, finish = true, deltaChars, endless } = reply;
  const calls = callsOf(reply, answer);
  const message = {
    id: `answer_${answer}`,
    type: 'message',
    role: 'assistant',
    model: MODEL,
    content: [],
    stop_reason: null,
    stop_sequence: null,
    ...(usage && { usage: { input_tokens: usage.inputTokens, output_tokens: 1 } }),
  };
  const events = [anthropicEvent('message_start', { message }), anthropicEvent('ping', {})];
  let index = 0;
  const block = (content_block: object, deltas: readonly object[]) => {
    events.push(anthropicEvent('content_block_start', { index, content_block }));
    for (const delta of deltas) events.push(anthropicEvent('content_block_delta', { index, delta }));
    if (!endless) events.push(anthropicEvent('content_block_stop', { index }));
    index += 1;
  };
  if (text !== undefined || endless) {
    const deltas = piecesOf(text ?? '', deltaChars).map((it) => ({ type: 'text_delta', text: it }));
    block({ type: 'text', text: '' }, deltas);
  }
  if (endless) return events.join('');
  for (const { id, name, text: json } of calls) {
    const deltas = piecesOf(json, deltaChars).map((it) => ({ type: 'input_json_delta', partial_json: it }));
    block({ type: 'tool_use', id, name, input: {} }, deltas);
  }
  if (finish) {
    const delta = { stop_reason: calls.length > 0 ? 'tool_use' : 'end_turn', stop_sequence: null };
    const end = { delta, ...(usage && { usage: { output_tokens: usage.outputTokens } }) };
    events.push(anthropicEvent('message_delta', end), anthropicEvent('message_stop', {}));
  }
  return events.join('');
}

function anthropicMessage(reply: ModelReply, answer: number): object {
  const { text, usage = DEFAULT_USAGE } = reply;
  const calls = callsOf(reply, answer);
  const uses = calls.map(({ id, name, text: json }) => ({ type: 'tool_use', id, name, input: jsonOr(json, json) }));
  return {
    id: `answer_${answer}`,
    type: 'message',
    role: 'assistant',
    model: MODEL,
    content: [...(text === undefined ? [] : [{ type: 'text', text }]), ...uses],
    stop_reason: calls.length > 0 ? 'tool_use' : 'end_turn',
    stop_sequence: null,
    ...(usage && { usage: { input_tokens: usage.inputTokens, output_tokens: usage.outputTokens } }),
  };
}
