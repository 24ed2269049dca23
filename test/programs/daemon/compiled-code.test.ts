/** Cached code is used only if nobody else could have written it. */
import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { keepCode } from '../../../src/daemon/compiled-code.ts';
import { repository, temporaryDir } from '../../support/daemon.ts';

let stateDir: string;
beforeEach(() => {
  stateDir = temporaryDir('state');
});
afterEach(() => rmSync(stateDir, { recursive: true, force: true }));

/** The cache folder of a process that uses cached code. */
function takenFrom(workspaces: string[]): string {
  const script = `import { useKeptCode } from '${repository}/src/daemon/compiled-code.ts';
    import { getCompileCacheDir } from 'node:module';
    useKeptCode(${JSON.stringify(stateDir)}, ${JSON.stringify(workspaces)});
    console.log(getCompileCacheDir() ?? 'nowhere');`;
  const args = ['--input-type=module', '-e', script];
  return execFileSync(process.execPath, args, { encoding: 'utf8', env: {} }).trim();
}

test('compiled code is taken from a folder of the state directory that only its owner can write', () => {
  expect(takenFrom(['/nonexistent'])).toContain(join(stateDir, 'code/'));
});

test('compiled code is not taken from a folder that others may write', () => {
  mkdirSync(join(stateDir, 'code'));
  chmodSync(join(stateDir, 'code'), 0o775);
  expect(takenFrom([])).toBe('nowhere');
});

test('compiled code is not taken through a link', () => {
  mkdirSync(join(stateDir, 'elsewhere'));
  symlinkSync('elsewhere', join(stateDir, 'code'));
  expect(takenFrom([])).toBe('nowhere');
});

test('compiled code is not taken if the state lies in a workspace, which agents write', () => {
  expect(takenFrom([join(stateDir, '..')])).toBe('nowhere');
});

test('compiled code is not taken if the config file, which code reads, names a workspace that holds the state', () => {
  const config = join(stateDir, 'config.yaml');
  writeFileSync(config, JSON.stringify({ workspaces: [stateDir] }));
  const args = [
    join(repository, 'bin/ringfenced.js'),
    '--state',
    join(stateDir, 'inner'),
    '--socket',
    '/nonexistent/s',
  ];
  const { status, stderr } = spawnSync(process.execPath, args, {
    encoding: 'utf8',
    cwd: repository,
    env: { HOME: '/nonexistent', RINGFENCE_CONFIG: config },
  });
  expect(stderr).toMatch(/lies in workspace/);
  expect(status).toBe(2);
  expect(existsSync(join(stateDir, 'inner/code'))).toBe(false);
});

test('too many files are dropped, and fewer stay', () => {
  mkdirSync(join(stateDir, 'code/v1'), { recursive: true });
  for (const name of ['a', 'b', 'c']) writeFileSync(join(stateDir, 'code/v1', name), '');
  keepCode(stateDir, { codeFilesMax: 4 });
  expect(readdirSync(join(stateDir, 'code/v1'))).toHaveLength(3);
  keepCode(stateDir, { codeFilesMax: 3 });
  expect(existsSync(join(stateDir, 'code'))).toBe(false);
});
