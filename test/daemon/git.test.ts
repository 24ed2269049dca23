/** What git reveals about denied files in commands that need no approval. */
import { execFileSync } from 'node:child_process';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { openDaemon } from '../support/daemon.ts';

test('git shows a committed secret to no command that runs unasked', async () => {
  await using daemon = await openDaemon({ policy: 'extends: careful\napprovals: { headless: deny }\n' });
  const git = (...args: string[]) =>
    execFileSync('git', ['-c', 'user.name=a', '-c', 'user.email=a@b', ...args], { cwd: daemon.workspace });
  git('init', '-q');
  writeFileSync(join(daemon.workspace, '.env'), 'KEY=GOLD\n');
  writeFileSync(join(daemon.workspace, 'a.txt'), 'one\n');
  git('add', '-A');
  git('commit', '-qm', 'first');
  writeFileSync(join(daemon.workspace, 'a.txt'), 'two\n');
  await using agent = await daemon.connect();
  const told: string[] = [];
  rmSync(join(daemon.workspace, '.env'));
  const commands = ['git log -p', 'git log -SGOLD', 'git diff HEAD', 'git diff -- .', 'git diff', 'git log --stat'];
  for (const command of commands) told.push(JSON.stringify(await agent.call('terminal_execute', { command })));
  expect(told.join()).not.toContain('"success":true');
  expect(told.at(-1)).toContain('`git_log`');
  expect(told.join()).not.toContain('KEY=GOLD');
});
