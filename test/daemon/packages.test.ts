/** Its packages lie where an installer put them. */
import { execFile } from 'node:child_process';
import { cpSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { repository, temporaryDir } from '../support/daemon.ts';

const run = promisify(execFile);

test('hosts start where node_modules is a link', async () => {
  const folder = temporaryDir('packages');
  const [workspace, state] = [temporaryDir('ws'), temporaryDir('state')];
  const ringfence = (...args: string[]) =>
    run(process.execPath, [join(folder, 'bin/ringfence.js'), ...args, '--state', state]);
  try {
    for (const it of ['bin', 'src', 'workers', 'policies', 'package.json'])
      cpSync(join(repository, it), join(folder, it), { recursive: true });
    symlinkSync(join(repository, 'node_modules'), join(folder, 'node_modules'));
    writeFileSync(join(workspace, 'a.txt'), 'read\n');
    const { stdout } = await ringfence('call', 'file_read', 'path=a.txt', '--workspace', workspace);
    expect(stdout).toBe('read\n');
  } finally {
    await ringfence('stop').catch(() => {}); // None came up.
    for (const it of [folder, workspace, state]) rmSync(it, { recursive: true, force: true });
  }
});
