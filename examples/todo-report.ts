// One request instead of five: what is still to do in this repository, as a report. Run by the tests.
import { createClient } from 'ringfence/client';

const [socket = '', workspace = process.cwd()] = process.argv.slice(2);
await using client = await createClient({ socket, workspace });

const calls = [
  { id: 'files', tool: 'file_list', input: { path: 'src', recursive: true, pattern: '*.ts' } },
  { id: 'todo', tool: 'terminal_execute', input: { command: 'grep -rn "TODO" src || true' } },
  { id: 'title', tool: 'file_read', input: { path: 'README.md', maxLines: 1 } },
  {
    id: 'report',
    tool: 'file_write',
    input: {
      path: 'TODO.md',
      content: '${title.data.content}\n\n${files.data.count} files, in which is still to do:\n\n${todo.data.stdout}',
    },
  },
  { id: 'check', tool: 'file_read', input: { path: '${report.data.path}' } },
];

const { levels, criticalPath } = await client.plan(calls);
console.log(`${levels.length} levels, longest way ${criticalPath.join(' → ')}`);

const { success, results, metadata } = await client.batch(calls);
const check = results.at(-1);
if (!success || !check?.success) throw new Error(JSON.stringify(results.filter((it) => !it.success)));
console.log((check.data as { content: string }).content);
console.log(`${metadata.successCount} calls, at most ${metadata.maxParallelism} at once`);
