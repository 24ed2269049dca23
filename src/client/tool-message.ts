/** Results as the messages that model APIs take in answer to a tool call of the model. */
import type { ToolResult } from '../call.ts';
import { toJson } from '../protocol/json.ts';
import { modelTexts } from '../protocol/model-text.ts';
import { errorText } from '../protocol/result-text.ts';

/** The answer to a tool call, as each API takes it; `openai` is the Responses API, `openai-chat` is Chat Completions. */
export interface ToolMessages {
  openai: { type: 'function_call_output'; call_id: string; output: string };
  'openai-chat': { role: 'tool'; tool_call_id: string; content: string };
  /** A content block: it goes into the `content` of a message of the user, with the others of its turn. */
  anthropic: { type: 'tool_result'; tool_use_id: string; content: string; is_error?: true };
}

/**
 * The message that tells a model what came of its tool call. `id` is the API's own id of that call: OpenAI's `call_id`
 * (Responses) or `id` (Chat Completions), Anthropic's `id` of the `tool_use` block.
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

/** What a model should know of a result: data or error, and what the caller was warned of, kept from, or not given. */
function toText(result: ToolResult): string {
  const { warnings = [], denied = [], truncated } = result.metadata;
  return [
    ...(result.success ? modelTexts(result.tool, withoutMedia(result.data)) : [errorText(result.error)]),
    ...warnings.map((it) => `warning: ${it}`),
    ...(denied.length > 0 ? [`kept from: ${toJson(denied)}`] : []),
    ...(truncated ? [`[not all output is here: it had ${truncated.bytesTotal} bytes]`] : []),
  ].join('\n');
}

/** A picture or sound of an external provider is megabytes of base64 that no model can read as text. */
function withoutMedia(data: unknown): unknown {
  if (typeof data !== 'object' || data === null || !('content' in data) || !Array.isArray(data.content)) return data;
  return { ...data, content: data.content.map(withoutData) };
}

function withoutData(block: unknown): unknown {
  if (typeof block !== 'object' || block === null || !('mimeType' in block) || !('data' in block)) return block;
  return { ...block, data: `[${String(block.data).length} base64 characters are left out]` };
}
