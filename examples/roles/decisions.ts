// What each role of examples/roles/config.yaml may do: node examples/roles/decisions.ts SOCKET STATE_DIR WORKSPACE
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createClient } from 'ringfence/client';

const [socket = '', stateDir = '', workspace = process.cwd()] = process.argv.slice(2);
const calls = [
  { tool: 'file_read', input: { path: 'src/a.ts' } },
  { tool: 'file_write', input: { path: 'docs/a.md', content: '' } },
  { tool: 'file_write', input: { path: 'src/a.ts', content: '' } },
  { tool: 'file_delete', input: { path: 'src/a.ts' } },
  { tool: 'git_commit', input: { message: 'x' } },
  { tool: 'terminal_execute', input: { command: 'make' } },
  { tool: 'http_request', input: { url: 'https://example.org/' } },
];

for (const role of ['user', 'admin', 'auto']) {
  const token = readFileSync(join(stateDir, `tokens/${role}.token`), 'utf8').trim();
  await using client = await createClient({ socket, workspace, token });
  for (const call of calls) {
    const { decision } = (await client.request('policy.explain', call)) as { decision: string };
    console.log(`${role.padEnd(6)} ${decision.padEnd(6)} ${call.tool} ${Object.values(call.input)[0]}`);
  }
}
