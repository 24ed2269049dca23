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
const env = {
  HOME: home,
  PATH: `${bin}:/usr/bin:/bin`,
  XDG_CONFIG_HOME: join(home, 'config'),
  XDG_STATE_HOME: join(home, 'state'),
};
const run = (...words: string[]) =>
  spawnSync(process.execPath, [ringfence, ...words], { cwd: project, env, encoding: 'utf8' });
afterAll(() => {
  run('stop');
  rmSync(home, { recursive: true });
});

test('init shows its proposal, writes only when allowed, and then the project works without questions', () => {
  const shown = run('init', '--print');
  expect(shown.status).toBe(0);
  expect(shown.stdout).toMatch(/project-make[\s\S]*/);
  expect(shown.stdout).toContain('greeter/1.0.0 (mise)');
  expect(existsSync(join(home, 'config/ringfence'))).toBe(false);
  expect(run('init')).toMatchObject({ status: 2, stderr: expect.stringContaining('--yes') });
  expect(existsSync(join(home, 'config/ringfence'))).toBe(false);

  expect(run('init', '--yes').status).toBe(0);
  expect(readFileSync(join(home, 'config/ringfence/policy.yaml'), 'utf8')).toContain('project-make');
  expect(run('init').stdout).toContain('already set up');
  expect(run('config', 'check').status).toBe(0);

  expect(run('call', 'terminal_execute', 'command=make test')).toMatchObject({ status: 0, stdout: 'greetings\n' });
  expect(run('call', 'terminal_execute', 'command=make deploy').status).toBe(4);
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
