/** `ringfence config` checks a file like the daemon, without starting it or creating anything. */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ringfence, temporaryDir } from '../support/daemon.ts';

const home = temporaryDir('config');
const file = join(home, 'config.yaml');
const project = join(home, 'project');
beforeAll(() => mkdirSync(project));
afterAll(() => rmSync(home, { recursive: true, force: true }));

function config(text: string | undefined, ...args: string[]) {
  if (text !== undefined) writeFileSync(file, text);
  const { status, stdout, stderr } = spawnSync(process.execPath, [ringfence, 'config', ...args], {
    cwd: project,
    env: { PATH: '/usr/bin:/bin', HOME: home, RINGFENCE_CONFIG: file, RINGFENCE_LISTEN: '127.0.0.1:0' },
    encoding: 'utf8',
  });
  return { status, stdout, stderr };
}

test('path prints the file, and says where there is none', () => {
  expect(config(undefined, 'path')).toMatchObject({
    status: 0,
    stdout: `${file}\n`,
    stderr: expect.stringContaining('does not exist; the defaults apply'),
  });
});

test.each([
  ['workspaces: [project]\nlimits: { hostsMax: 4 }\n', 0, 'ok'],
  ['limits: { hostMax: 4 }\n', 2, '1:11: limits.hostMax is unknown; did you mean hostsMax?'],
  ['limits: { eventsKept: 4 }\n', 2, 'eventsKept is fixed at 1024'],
  ['limits: { commandMax: { memoryMb: 512 }, callTimeoutMs: { execute: 60000 } }\n', 0, 'ok'],
  ['limits: { commandMax: { memory: 512 } }\n', 2, 'limits.commandMax.memory is unknown; did you mean memoryMb?'],
  ['polcy: default\nidleExitMinutes: -1\n', 2, 'config.yaml:2:18: idleExitMinutes: must be at least 0'],
  ['limits: { hostsMax: 0 }\n', 2, 'hostsMax'],
  ['cgroup: v3\n', 2, 'cgroup'],
  ['workspaces: [nowhere]\n', 2, 'nowhere is not a directory'],
  ['policy: nowhere.yaml\n', 2, 'nowhere.yaml'],
  ['principals: { operator: {} }\n', 2, 'operator'],
  ['a: [\n', 2, 'config.yaml'],
])('check judges %j', (text, status, told) => {
  const answer = config(text, 'check');
  expect({ status: answer.status, told: answer.stdout + answer.stderr }).toEqual({
    status,
    told: expect.stringContaining(told),
  });
  expect(existsSync(join(home, '.local'))).toBe(false);
});

test('show gives each value with where it comes from, and no secret of a provider', () => {
  const text = `workspaces: [project]
limits: { hostsMax: 4 }
providers: { notes: { command: [/bin/true, --key=hunter2], env: { KEY: hunter2 } } }
`;
  const { stdout, status } = config(text, 'show', '--json');
  expect(status).toBe(0);
  expect(stdout).not.toContain('hunter2');
  const all = JSON.parse(stdout) as { key: string; value: unknown; from: string }[];
  const of = (key: string) => all.find((it) => it.key === key);
  expect(of('workspaces')).toMatchObject({ value: [project], from: 'file' });
  expect(of('listen')).toMatchObject({ value: '127.0.0.1:0', from: 'environment' });
  expect(of('policy')).toMatchObject({ value: 'default', from: 'default' });
  expect(of('providers')).toMatchObject({ value: ['notes'], from: 'file' });
  expect(of('limits.hostsMax')).toMatchObject({ value: 4, from: 'file' });
  expect(of('limits.frameBytesMax')).toMatchObject({ value: 16_777_216, from: 'default' });
  expect(config(undefined, 'show').stdout).toMatch(/^limits\.hostsMax +4 {3}\(file\)$/m);
});
