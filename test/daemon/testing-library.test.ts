/** `ringfence/testing`, used by a package that has it installed, with vitest and with node:test. */
import { execFile } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startTestDaemon } from '../../src/testing/testing.ts';
import { processesWith, removeTree, repository, temporaryDir, until } from '../support/daemon.ts';
import { installPackage } from '../support/installed-package.ts';

const run = promisify(execFile);
const fixture = join(repository, 'test/fixtures/testing-library');
const scenarios = 9;
let folder: string;

beforeAll(() => {
  folder = temporaryDir('testing-library');
  cpSync(fixture, folder, { recursive: true });
  installPackage(folder, ['vitest', '@types']);
});
afterAll(() => removeTree(folder));

test('a package tests with vitest, and nothing of it is left', async () => {
  const temporary = join(folder, 'tmp');
  mkdirSync(temporary);
  const vitest = join(repository, 'node_modules/vitest/vitest.mjs');
  const report = join(folder, 'report.json');
  const args = ['--root', folder, '--reporter=json', '--outputFile', report, 'with-vitest.test.js'];
  await run(process.execPath, [vitest, 'run', ...args], { cwd: folder, env: { ...process.env, TMPDIR: temporary } });
  expect(JSON.parse(readFileSync(report, 'utf8'))).toMatchObject({ success: true, numPassedTests: scenarios });
  expect(readdirSync(temporary).filter((it) => it.startsWith('ringfence-'))).toEqual([]);
  expect(processesWith(temporary)).toEqual([]);
});

test('a package tests with node:test', async () => {
  const { stdout } = await run(process.execPath, ['--test', '--test-reporter=tap', 'with-node.js'], { cwd: folder });
  expect(stdout).toMatch(new RegExp(`^# pass ${scenarios}$`, 'm'));
});

test('a daemon under test ends with the process of its test, however that ends', async () => {
  const code = `
    const { startTestDaemon } = await import('ringfence/testing');
    const daemon = await startTestDaemon();
    (await import('node:fs')).writeSync(1, daemon.stateDir);
    process.kill(process.pid, 'SIGKILL');`;
  const child = run(process.execPath, ['--input-type=module', '-e', code], { cwd: folder });
  const { stdout } = (await child.catch((error: unknown) => error)) as { stdout: string };
  const stateDir = stdout.trim();
  expect(stateDir).toMatch(/ringfence-test-/);
  await until(() => processesWith(stateDir).length === 0);
  removeTree(join(stateDir, '..'));
});

test('a daemon under test is closed once, and takes a workspace that is there', async () => {
  const workspace = temporaryDir('ws');
  const daemon = await startTestDaemon({ workspace, files: { 'a.txt': 'one\n' } });
  expect(daemon.confinement).toMatchObject({ level: expect.stringMatching(/^[ABC]$/), missing: expect.any(Array) });
  await using other = await daemon.connect({ name: 'other' });
  expect(await other.call('file_read', { path: 'a.txt' })).toMatchObject({ success: true });
  expect(daemon.log()).toContain('"ready"');
  await Promise.all([daemon.close(), daemon.close()]);
  expect(existsSync(daemon.stateDir)).toBe(false);
  expect(existsSync(join(workspace, 'a.txt'))).toBe(true);
  await expect(daemon.clock.now()).rejects.toThrow('the daemon has ended');
  removeTree(workspace);
});
