// The same tool by Ringfence: judged by the policy, in a sandbox, on the record, and to be undone.
import { createClient } from 'ringfence/client';

const [socket = '', workspace = process.cwd()] = process.argv.slice(2);
await using client = await createClient({ socket, workspace });

export async function shellTool(command: string): Promise<string> {
  const result = await client.call('terminal_execute', { command, timeout: 60_000 });
  if (result.success) return result.data.stdout + result.data.stderr;
  return `failed: ${result.error.code}: ${result.error.message}`;
}

for (const command of ['echo hello', 'cat .env']) console.log((await shellTool(command)).trim());
