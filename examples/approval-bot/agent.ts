// An agent whose policy asks about commands. Its call waits until the bot has an answer.
import { createClient } from 'ringfence/client';

const [socket = '', workspace = process.cwd()] = process.argv.slice(2);
await using client = await createClient({ socket, workspace, name: 'agent' });

for (const command of ['sh deploy.sh staging', 'sh deploy.sh production']) {
  const result = await client.call('terminal_execute', { command });
  if (result.success) console.log(result.data.stdout.trim());
  else console.log(`${result.error.code}: ${result.error.message}`);
}
