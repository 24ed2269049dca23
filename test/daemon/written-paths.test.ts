/** Paths as agents write them, through a whole daemon: rules see the relative ones, and so do answers. */
import { mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { dataOf, openDaemon, temporaryDir } from '../support/daemon.ts';

test('absolute paths, URLs of files and a link to the workspace name what is in it, to rules as well', async () => {
  const folder = temporaryDir('written');
  const workspace = join(folder, 'ws');
  const link = join(folder, 'link');
  mkdirSync(join(workspace, 'vault'), { recursive: true });
  symlinkSync('ws', link);
  writeFileSync(join(workspace, 'AGENTS.md'), 'one\n');
  symlinkSync('AGENTS.md', join(workspace, 'CLAUDE.md'));
  writeFileSync(join(workspace, 'vault/a'), 'hidden\n');
  const policy =
    'tiers:\n  execute: { decision: allow }\nrules:\n  - { id: vault, match: { read: vault/** }, decision: deny, reason: no }\n';
  await using daemon = await openDaemon({ workspace, policy });
  await using client = await daemon.connect();
  const call = (tool: string, input: object) => client.call(tool, input);
  for (const path of [join(workspace, 'CLAUDE.md'), join(link, 'CLAUDE.md'), `file://${link}/AGENTS.md`])
    expect(await dataOf(call('file_read', { path }))).toMatchObject({ content: 'one\n' });
  expect(await dataOf(call('file_grep', { pattern: 'one', path: link }))).toMatchObject({
    matches: [{ file: 'AGENTS.md' }],
  });
  expect(await dataOf(call('glob', { pattern: `${link}/*.md` }))).toMatchObject({ paths: ['AGENTS.md'] });
  expect(await dataOf(call('bash', { command: 'pwd', cwd: link }))).toMatchObject({ stdout: `${workspace}\n` });
  expect(await call('file_read', { path: join(link, 'vault/a') })).toMatchObject({ error: { rule: 'vault' } });
  expect(await call('file_read', { path: join(folder, 'other') })).toMatchObject({
    error: { code: 'ACCESS_DENIED', message: `\`${folder}/other\` is outside the workspace` },
  });
  const edited = call('edit', { filePath: join(link, 'CLAUDE.md'), oldString: 'one', newString: 'two' });
  expect(await dataOf(edited)).toMatchObject({ path: 'AGENTS.md', appliedOperations: 1 });
  rmSync(folder, { recursive: true });
}, 60_000);
