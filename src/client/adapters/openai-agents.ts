/** `ringfence/openai-agents`: the tools of a session for the OpenAI Agents SDK. */
import { type FunctionTool, tool } from '@openai/agents';
import type { Client, ToolSettings } from '../client.ts';
import { toToolMessage } from '../tool-message.ts';

/**
 * The tools for an `Agent`. The model gets the text of a result, also of a call that failed. The id of the model's call makes it safe to
 * repeat; aborting the run cancels it. The SDK's own approvals stay off: the policy asks, and the call waits for the answer.
 */
export async function ringfenceTools(client: Client, settings: ToolSettings = {}): Promise<FunctionTool[]> {
  const declared = await client.tools('anthropic', settings);
  return declared.map(({ name, description, input_schema }) => {
    const made = tool({
      name,
      description,
      parameters: input_schema as never,
      strict: false,
      execute: async (input: unknown, _context, details) => {
        const callId = details?.toolCall?.callId;
        const result = await client.call(name, input, {
          callId,
          signal: details?.signal,
        });
        return toToolMessage('openai', result.callId, result).output;
      },
    });
    return made as unknown as FunctionTool;
  });
}
