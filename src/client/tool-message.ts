/** Converts results to the messages that model APIs expect in answer to a tool call. */
import type { ToolResult } from '../call.ts';
import { envelopeOf } from '../protocol/envelope.ts';
import { toJson } from '../protocol/json.ts';
import { modelTexts } from '../protocol/model-text.ts';
import { errorText } from '../protocol/result-text.ts';

/** The answer to a tool call in the format of each API; `openai` is the Responses API, `openai-chat` is Chat Completions. */
export interface ToolMessages {
  openai: { type: 'function_call_output'; call_id: string; output: string };
  'openai-chat': { role: 'tool'; tool_call_id: string; content: string };
  /** A content block: belongs into the `content` of a user message, together with the others of the same turn. */
  anthropic: { type: 'tool_result'; tool_use_id: string; content: string; is_error?: true };
}

/**
 * The message that reports a result to a model. `id` is the API's own id of the tool call: OpenAI's `call_id` (Responses) or `id` (Chat
 * Completions), Anthropic's `id` of the `tool_use` block.
 */
export function toToolMessage<F extends keyof ToolMessages>(format: F, id: string, result: ToolResult): ToolMessages[F];
export function toToolMessage(
  format: keyof ToolMessages,
  id: string,
  result: ToolResult,
): ToolMessages[keyof ToolMessages] {
  const text = toText(result);
  switch (format) {
    case 'openai':
      return { type: 'function_call_output', call_id: id, output: text };
    case 'openai-chat':
      return { role: 'tool', tool_call_id: id, content: text };
    case 'anthropic':
      return { type: 'tool_result', tool_use_id: id, content: text, ...(!result.success && { is_error: true }) };
    default:
      return format satisfies never;
  }
}

/** The parts of a result that a model needs: data or error, warnings, denials, and whether output is missing. */
function toText(result: ToolResult): string {
  const { warnings = [], denied = [], truncated } = result.metadata;
  return [
    ...(result.success ? dataTexts(result) : [errorText(result.error)]),
    ...warnings.map((it) => `warning: ${it}`),
    ...(denied.length > 0 ? [`kept from: ${toJson(denied)}`] : []),
    ...(truncated ? [`[not all output is here: it had ${truncated.bytesTotal} bytes]`] : []),
  ].join('\n');
}

/** The data of a result; what strangers wrote, in an envelope. */
function dataTexts(result: ToolResult & { success: true }): string[] {
  const texts = modelTexts(result.tool, withoutMedia(result.data));
  if ((result.data as { trust?: unknown } | null)?.trust !== 'untrusted') return texts;
  const { begin, end, inside } = envelopeOf(result, result.data);
  return [begin, ...texts.map(inside), end];
}

/** Replaces media of external providers, since megabytes of base64 mean nothing to a model as text. */
function withoutMedia(data: unknown): unknown {
  if (typeof data !== 'object' || data === null || !('content' in data) || !Array.isArray(data.content)) return data;
  return { ...data, content: data.content.map(withoutData) };
}

function withoutData(block: unknown): unknown {
  if (typeof block !== 'object' || block === null || !('mimeType' in block) || !('data' in block)) return block;
  return { ...block, data: `[${String(block.data).length} base64 characters are left out]` };
}
