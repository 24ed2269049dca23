/** `ringfence/langchain`: the tools of a session for LangChain.js and LangGraph. */
import { type DynamicStructuredTool, tool } from '@langchain/core/tools';
import type { Client, ToolSettings } from '../client.ts';
import { toToolMessage } from '../tool-message.ts';

/** What LangChain tells a tool of its call. */
interface CallConfig {
  readonly toolCall?: { readonly id?: string };
  readonly signal?: AbortSignal;
}

/**
 * The tools for `bindTools` and agents. The content of a tool message is the text of the result, its `artifact` the `ToolResult`. The id of
 * the model's call makes it safe to repeat; aborting cancels it. A call that the policy asks about waits for the answer.
 */
export async function ringfenceTools(client: Client, settings: ToolSettings = {}): Promise<DynamicStructuredTool[]> {
  const declared = await client.tools('anthropic', settings);
  return declared.map(({ name, description, input_schema }) => {
    const run = async (input: unknown, config: CallConfig = {}) => {
      const callId = config.toolCall?.id;
      const result = await client.call(name, input, {
        callId,
        signal: config.signal,
      });
      return [toToolMessage('openai', result.callId, result).output, result];
    };
    const fields = { name, description, schema: input_schema, responseFormat: 'content_and_artifact' };
    return tool(run as never, fields as never) as unknown as DynamicStructuredTool;
  });
}
