// An agent that mends a failing test, in 60 lines: the tools are Ringfence's, the loop is ordinary.
import { createClient, toToolMessage } from 'ringfence/client';
import { type Message, reply, type ToolUse } from './model.ts';

const [socket = '', workspace = process.cwd()] = process.argv.slice(2);
await using client = await createClient({ socket, workspace, name: 'coding-agent' });

const tools = await client.tools('anthropic');
const messages: Message[] = [{ role: 'user', content: 'The tests fail. Find out why, and mend it.' }];

for (let turn = 0; turn < 20; turn++) {
  const content = await reply(messages, tools);
  messages.push({ role: 'assistant', content });
  const uses = content.filter((block): block is ToolUse => block.type === 'tool_use');
  for (const block of content) if (block.type === 'text') console.log(block.text);
  if (uses.length === 0) break;

  // All calls of a turn at once: the daemon orders those that touch the same files.
  const results = await Promise.all(
    uses.map(async ({ id, name, input }) => {
      const result = await client.call(name, input, { callId: id });
      console.log(`${name} → ${result.success ? 'ok' : result.error.code}`);
      return toToolMessage('anthropic', id, result);
    }),
  );
  messages.push({ role: 'user', content: results });
}
