/** `ringfence policy set` writes the rule of one tool into the person's policy file. */
import { spawnSync } from 'node:child_process';
import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { readPolicy } from '../../../src/policy/load.ts';
import { ringfence, temporaryDir } from '../../support/daemon.ts';

const home = temporaryDir('policy-set');
afterAll(() => rmSync(home, { recursive: true, force: true }));
const file = join(home, '.config/ringfence/policy.yaml');
const set = (...words: string[]) =>
  spawnSync(process.execPath, [ringfence, 'policy', 'set', ...words], {
    encoding: 'utf8',
    env: { PATH: process.env.PATH ?? '', HOME: home },
  });
const levels = () =>
  readPolicy(file)
    .policy.rules.filter(({ id }) => id.startsWith('level-of-'))
    .map(({ match, decision }) => [match.tool, decision]);

test('policy set writes a rule, shows the change, and replaces the rule of the same tool alone', () => {
  const first = set('code_run', 'ask');
  expect(first).toMatchObject({ status: 0, stdout: expect.stringContaining('+  - id: level-of-code-run') });
  expect(first.stderr).toContain('start the daemon anew');
  expect(readFileSync(join(home, '.config/ringfence/config.yaml'), 'utf8')).toContain('policy: policy.yaml');
  expect(set('websearch', 'auto').status).toBe(0);
  expect(set('code_run', 'deny').stderr).toContain('a running daemon applies it at once');
  expect(levels()).toEqual([
    ['web_search', 'allow'],
    ['code_run', 'deny'],
  ]);
  expect(set('code_run', 'default').status).toBe(0);
  expect(set('web_search', 'default').status).toBe(0);
  expect(levels()).toEqual([]);
});

test('policy set says which levels there are, and which tool was meant', () => {
  expect(set('code_run', 'maybe')).toMatchObject({
    status: 2,
    stderr: expect.stringContaining('auto, ask, deny, default'),
  });
  expect(set('code_runn', 'deny')).toMatchObject({
    status: 2,
    stderr: expect.stringContaining('did you mean code_run?'),
  });
});
