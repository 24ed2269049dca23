/** `ringfence/ai`: the tools of a session for the Vercel AI SDK. */
import { dynamicTool, jsonSchema, type ToolSet } from 'ai';
import type { ToolResult } from '../../base/call.ts';
import type { Client, ToolSettings } from '../client.ts';
import { toToolMessage } from '../tool-message.ts';

/**
 * The tools for `generateText` and `streamText`. The output of a call is its `ToolResult`, of which the model gets the text. The id of the
 * model's call makes it safe to repeat; aborting cancels it. A call that the policy asks about waits for the answer.
 */
export async function ringfenceTools(client: Client, settings: ToolSettings = {}): Promise<ToolSet> {
  const declared = await client.tools('anthropic', settings);
  return Object.fromEntries(
    declared.map(({ name, description, input_schema }) => [
      name,
      dynamicTool({
        description,
        inputSchema: jsonSchema(input_schema),
        // A running call is iterable too, and the SDK would take its progress for results: so only the promise leaves here.
        execute: async (input, { toolCallId: callId, abortSignal: signal }) =>
          await client.call(name, input, { callId, signal }),
        toModelOutput: ({ output }) => {
          const result = output as ToolResult;
          const value = toToolMessage('openai', result.callId, result).output;
          return { type: result.success ? 'text' : 'error-text', value };
        },
      }),
    ]),
  );
}
