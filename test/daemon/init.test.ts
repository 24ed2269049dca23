/** `ringfence init` in a project, and what an agent can do there afterwards. */
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import type { ToolResult } from '../../src/base/call.ts';
import { ringfence } from '../support/daemon.ts';

/** Not below /tmp: each sandbox has its own /tmp. */
const home = realpathSync(
  mkdtempSync(join(existsSync('/opt') && process.getuid?.() === 0 ? '/opt' : homedir(), 'ringfence-home-')),
);
const project = join(home, 'project');
const bin = join(home, '.local/share/mise/installs/greeter/1.0.0/bin');
mkdirSync(project);
mkdirSync(bin, { recursive: true });
writeFileSync(join(bin, 'greet'), '#!/bin/sh\necho greetings\n');
chmodSync(join(bin, 'greet'), 0o755);
writeFileSync(join(project, 'Makefile'), 'test:\n\t@greet\ndeploy:\n\t@echo deployed\n');
/** Another version of it, which this project alone names. */
const pinned = join(home, '.local/share/mise/installs/greeter/0.9.0/bin');
mkdirSync(pinned, { recursive: true });
writeFileSync(join(pinned, 'greet'), '#!/bin/sh\necho older greetings\n');
chmodSync(join(pinned, 'greet'), 0o755);
const other = join(home, 'other');
mkdirSync(other);
writeFileSync(join(other, 'mise.toml'), '[tools]\ngreeter = "0.9.0"\n');
writeFileSync(join(other, 'package.json'), '{}');
const env = {
  HOME: home,
  PATH: `${bin}:/usr/bin:/bin`,
  XDG_CONFIG_HOME: join(home, 'config'),
  XDG_STATE_HOME: join(home, 'state'),
};
const runIn = (cwd: string, ...words: string[]) =>
  spawnSync(process.execPath, [ringfence, ...words], { cwd, env, encoding: 'utf8' });
const run = (...words: string[]) => runIn(project, ...words);
afterAll(() => {
  run('stop');
  rmSync(home, { recursive: true });
});

test('init shows its proposal, writes only when allowed, and then the project works without questions', () => {
  const shown = run('init', '--print');
  expect(shown.status).toBe(0);
  expect(shown.stdout).toContain('make        Makefile');
  expect(shown.stdout).toContain('greeter/1.0.0 (mise)');
  expect(existsSync(join(home, 'config/ringfence'))).toBe(false);
  expect(run('init')).toMatchObject({ status: 2, stderr: expect.stringContaining('--yes') });
  expect(existsSync(join(home, 'config/ringfence'))).toBe(false);

  expect(run('init', '--yes').status).toBe(0);
  expect(readFileSync(join(home, 'config/ringfence/policy.yaml'), 'utf8')).toContain('extends: default');
  expect(run('init').stdout).toContain('already set up');
  expect(run('config', 'check').status).toBe(0);

  expect(run('call', 'terminal_execute', 'command=make test')).toMatchObject({ status: 0, stdout: 'greetings\n' });
  expect(run('call', 'terminal_execute', 'command=make deploy')).toMatchObject({ status: 0, stdout: 'deployed\n' });
}, 60_000);

test('a version that a project names is first on PATH there, and not elsewhere', () => {
  expect(runIn(other, 'init', '--yes').stdout).toContain('greeter/0.9.0 (mise), for this project');
  expect(runIn(other, 'init').stdout).toContain('already set up');
  run('stop');
  expect(runIn(other, 'call', 'terminal_execute', 'command=greet').stdout).toBe('older greetings\n');
  expect(run('call', 'terminal_execute', 'command=greet').stdout).toBe('greetings\n');
}, 60_000);

test('hosts that a project needs are open there, and not elsewhere', () => {
  const command = 'command=curl -s -o /dev/null https://registry.npmjs.org/; true';
  const refusedBy = (cwd: string) => {
    const { metadata } = JSON.parse(runIn(cwd, 'call', 'terminal_execute', command, '--json').stdout) as ToolResult;
    return metadata.denied?.map((it) => it.layer) ?? [];
  };
  // Where no network is, the name may lead to an address that is not public.
  expect(refusedBy(other)).not.toContain('policy');
  expect(refusedBy(project)).toEqual(['policy']);
}, 60_000);

test('init refuses folders that are never a workspace', () => {
  const { status, stderr } = spawnSync(process.execPath, [ringfence, 'init', '--yes'], {
    cwd: home,
    env,
    encoding: 'utf8',
  });
  expect(status).toBe(2);
  expect(stderr).toContain("home directory can't be a workspace");
});
