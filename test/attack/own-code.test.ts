/** A workspace that contains Ringfence itself: an agent in it can't change the code that the daemon and its hosts run. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { dataOf, startDaemon } from '../support/daemon.ts';

const root = fileURLToPath(new URL('../..', import.meta.url)).replace(/\/$/, '');

test('the code of Ringfence is read-only to the write host and to commands, and cannot be moved away', async () => {
  await using daemon = await startDaemon({ workspace: root });
  await using client = await daemon.connect();
  for (const folder of ['src', 'dist', 'native', 'workers', 'bin', 'node_modules']) {
    const result = await client.call('file_write', { path: `${folder}/planted.js`, content: '' });
    expect(result).toMatchObject({ success: false, error: { code: 'SANDBOX_DENIED' } });
    expect(result.metadata.denied).toMatchObject([{ kind: 'write', layer: 'sandbox' }]);
    const command = `touch ${folder}/planted; mv ${folder} ${folder}-2`;
    const { stderr } = await dataOf(client.call('terminal_execute', { command }));
    expect(stderr).toMatch(/Read-only file system[\s\S]*mv: cannot move/);
    expect(existsSync(join(root, folder))).toBe(true);
  }
});
