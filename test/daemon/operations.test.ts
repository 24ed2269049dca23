/** Runs the backup and restore commands of docs/how-to/operations.md, and checks the limits that it names. */
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, statSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { defaultLimits } from '../../src/base/limits.ts';
import { repository, ringfence, temporaryDir } from '../support/daemon.ts';

const text = readFileSync(join(repository, 'docs/how-to/operations.md'), 'utf8');
const home = temporaryDir('operations');
const project = join(home, 'project');
const PATH = `${join(home, 'bin')}:${join(repository, 'node_modules/.bin')}:/usr/bin:/bin`;
const bash = (script: string) =>
  spawnSync('bash', ['-ec', script], { cwd: project, env: { PATH, HOME: home }, encoding: 'utf8' });
afterAll(() => {
  bash('ringfence stop');
  rmSync(home, { recursive: true, force: true });
});
const blockOf = (title: string): string =>
  /```sh\n([\s\S]*?)```/.exec(text.slice(text.indexOf(`\n## ${title}\n`)))?.[1] as string;

test('a state that was saved comes back: the record verifies, and what was done before can be undone', () => {
  for (const it of [project, join(home, 'bin'), join(home, '.config/ringfence')]) mkdirSync(it, { recursive: true });
  symlinkSync(ringfence, join(home, 'bin/ringfence'));
  const called = bash('ringfence call file_write path=a.txt content=before --json');
  const { callId } = JSON.parse(called.stdout);
  expect(bash(blockOf('Back up'))).toMatchObject({ status: 0 });
  // The state is lost, and a new daemon has created its own. One that still ran would write while it is removed.
  expect(bash('ringfence stop; rm -r ~/.local/state/ringfence && ringfence call file_list')).toMatchObject({
    status: 0,
  });
  const restored = bash(blockOf('Restore'));
  expect(restored).toMatchObject({ status: 0, stdout: expect.stringMatching(/\d+ entries/) });
  expect(bash(`ringfence undo ${callId}`)).toMatchObject({ status: 0, stdout: expect.stringContaining('a.txt') });
}, 120_000);

test('a backup is refused over a file that exists, and only its owner can read it', () => {
  expect(statSync(join(project, 'ringfence-state.tgz')).mode & 0o777).toBe(0o600);
  const again = bash('ringfence backup ringfence-state.tgz');
  expect([again.status, again.stderr]).toEqual([2, expect.stringContaining('exists; choose another name')]);
});

test('a state is not replaced while a daemon uses it, nor by what is no backup or a newer one', () => {
  const running = bash('ringfence call file_list && ringfence restore ringfence-state.tgz');
  expect([running.status, running.stderr]).toEqual([2, expect.stringContaining('stop it first: ringfence stop')]);
  const foreign = bash('ringfence stop; echo text > other; tar -czf other.tgz other; ringfence restore other.tgz');
  expect([foreign.status, foreign.stderr]).toEqual([2, expect.stringContaining('is no backup of Ringfence')]);
  const newer = bash(
    `echo '{"format":2,"version":"9.0.0"}' > backup.json; tar -czf new.tgz backup.json; ringfence restore new.tgz`,
  );
  expect([newer.status, newer.stderr]).toEqual([2, expect.stringContaining('upgrade first')]);
  expect(bash('ringfence audit verify')).toMatchObject({ status: 0 });
}, 60_000);

test('the limits that it names exist', () => {
  const named = [...text.matchAll(/`(\w+(?:Max|Ms|Kept|Bytes))`/g)].map((it) => it[1] as string);
  expect(named.length).toBeGreaterThan(10);
  expect(named.filter((it) => !Object.hasOwn(defaultLimits, it))).toEqual([]);
});
