import { spawnSync } from 'node:child_process';
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { removeTree, repository, temporaryDir } from '../../support/daemon.ts';

const state = temporaryDir('state');
afterAll(() => removeTree(state));

function du(...words: string[]) {
  const env = { PATH: process.env.PATH ?? '', HOME: '/nonexistent' };
  return spawnSync(process.execPath, [join(repository, 'bin/ringfence.js'), 'state', 'du', ...words], {
    env,
    encoding: 'utf8',
  });
}

test('state du counts the files of each part, the largest first, and follows no links', () => {
  mkdirSync(join(state, 'journal/1.large'), { recursive: true });
  writeFileSync(join(state, 'journal/1.large/a'), Buffer.alloc(3 * 1024 * 1024, 1));
  writeFileSync(join(state, 'audit.db'), Buffer.alloc(1024 * 1024, 1));
  writeFileSync(join(state, 'audit.key'), 'k');
  symlinkSync('/usr', join(state, 'link'));
  const { status, stdout } = du('--state', state, '--json');
  const { bytes, parts } = JSON.parse(stdout) as { bytes: number; parts: { part: string; files: number }[] };
  expect(status).toBe(0);
  expect(parts.map(({ part, files }) => [part, files])).toEqual([
    ['undo data', 1],
    ['audit log', 2],
    ['everything else', 1],
  ]);
  expect(bytes).toBeGreaterThanOrEqual(4 * 1024 * 1024);
  expect(bytes).toBeLessThan(5 * 1024 * 1024);
  expect(du('--state', state).stdout).toMatch(/^ +3\.\d MiB {2}undo data \(1 files\)\n/);
});

test('state du says of a state directory that is not there that it can not be read', () => {
  const { status, stderr } = du('--state', join(state, 'none'));
  expect([status, stderr]).toEqual([2, expect.stringContaining('the state directory can not be read: ENOENT')]);
});
