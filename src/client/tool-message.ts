/** Converts results to the messages that model APIs expect in answer to a tool call. */
import type { ToolResult } from '../base/call.ts';
import { messageText } from '../wire/protocol/message-text.ts';

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
  const text = messageText(result);
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
