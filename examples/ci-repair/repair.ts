// A job that mends what is broken while nobody watches, and fails if it could not: for `ringfence ci -- node repair.ts`.
import { createClient, type ToolResult } from 'ringfence/client';

// `ringfence ci` tells the job where its own daemon listens.
await using client = await createClient({ socket: process.env.RINGFENCE_SOCKET ?? '', workspace: process.cwd() });

const check = () => client.call('terminal_execute', { command: 'python3 -m unittest' });
const passes = (result: ToolResult<{ exitCode?: number | undefined }>) => result.success && result.data.exitCode === 0;

/** What a model would answer, given the output of the failing test. */
const proposal = () => ({
  path: 'greet.py',
  operations: [{ type: 'replace' as const, search: 'Helo', replace: 'Hello' }],
});

if (passes(await check())) {
  console.log('nothing to mend');
} else {
  const edit = await client.call('file_edit', proposal());
  if (!edit.success) throw new Error(`the change was refused: ${edit.error.code}: ${edit.error.message}`);
  if (passes(await check())) {
    console.log('mended; the change is in the working tree, for a pull request');
  } else {
    await client.undo(edit.callId);
    console.log('not mended; the change was taken back');
    process.exitCode = 1;
  }
}
