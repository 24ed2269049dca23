// A first call from TypeScript: names, inputs and results are typed from the tools' own schemas.
import { createClient } from 'ringfence/client';

const [socket = '', workspace = process.cwd()] = process.argv.slice(2);
await using client = await createClient({ socket, workspace });

const read = await client.call('file_read', { path: 'README.md', maxLines: 1 });
if (read.success) console.log(read.data.content.trim(), `(${read.data.lines} lines)`);

const running = client.call('terminal_execute', { command: 'echo hello from a sandbox' }, { progress: true });
for await (const it of running) if (it.kind === 'output') process.stdout.write(it.data);
const { metadata } = await running;
console.log(metadata.resources.verdict, metadata.tier);
