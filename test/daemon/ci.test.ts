/** `ringfence ci`: a job beside a daemon of its own, under a policy that the job's author can't change. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Run, runCli } from '../support/cli.ts';
import { removeTree, ringfence, temporaryDir } from '../support/daemon.ts';

const folder = temporaryDir('ci');
const project = join(folder, 'project');
const temporary = join(folder, 'tmp');
const POLICY = `version: 1
tiers: { execute: { decision: deny, reason: Only the checks run in CI. } }
rules:
  - { id: checks, match: { command: [python3, check.py, $] }, decision: allow, reason: The checks of this project. }
`;

beforeAll(() => {
  for (const it of [project, temporary]) mkdirSync(it);
  writeFileSync(join(project, 'check.py'), 'print("checked")\n');
  writeFileSync(join(folder, 'ci.yaml'), POLICY);
});
afterAll(() => removeTree(folder));

const ci = (args: readonly string[], cwd = project): Promise<Run> =>
  runCli({ stateDir: '/nonexistent', socket: '/nonexistent', workspace: cwd }, ['ci', ...args], {
    env: { TMPDIR: temporary },
  });
const call = (...input: string[]) => `"${process.execPath}" "${ringfence}" call ${input.join(' ')}`;
const shell = (...lines: string[]) => ['--', 'sh', '-c', lines.join('\n')];
const recordOf = () =>
  readFileSync(join(project, 'ringfence-audit.jsonl'), 'utf8')
    .trimEnd()
    .split('\n')
    .map((it) => JSON.parse(it) as { kind: string; tool?: string; code?: string });

test('a job whose calls all ran ends with 0, and its record and summary say so', async () => {
  const summary = join(folder, 'ok.md');
  const run = await ci([
    ...['--policy', join(folder, 'ci.yaml'), '--summary', summary],
    ...shell(call('file_list'), call('terminal_execute', "command='python3 check.py'")),
  ]);
  expect([run.code, run.stdout], run.stderr).toEqual([0, expect.stringContaining('checked\n')]);
  expect(run.stderr).toContain('2 calls: 0 failed, 0 denied, 0 left open');
  expect(
    recordOf()
      .filter((it) => it.kind === 'outcome')
      .map((it) => it.tool),
  ).toEqual(['file_list', 'terminal_execute']);
  expect(readFileSync(summary, 'utf8')).toContain('| calls | 2: 0 failed, 0 denied, 0 left open |');
  expect(readdirSync(temporary)).toEqual([]);
});

test('a job needs no policy file for what its sandbox contains', async () => {
  const run = await ci(shell(call('terminal_execute', "command='python3 check.py'")));
  expect([run.code, run.stdout], run.stderr).toEqual([0, 'checked\n']);
});

test('a denied call fails the job unless it is told to go on, and --json prints the report alone', async () => {
  const denied = shell(`${call('terminal_execute', "command='npm publish'")} || true`);
  const run = await ci(['--json', ...denied]);
  expect(run.code, run.stderr).toBe(4);
  expect(JSON.parse(run.stdout)).toMatchObject({
    exitCode: 0,
    policy: { name: 'unattended' },
    calls: { total: 1, failed: 0, denied: 1, open: 0 },
    listed: [{ tool: 'terminal_execute', code: 'POLICY_DENIED' }],
    audit: { ok: true },
  });
  expect(recordOf().some((it) => it.code === 'POLICY_DENIED')).toBe(true);
  expect((await ci(['--fail-on', 'open', ...denied])).code).toBe(0);
});

test('the exit code of the command itself comes first, also when it does not start or dies of a signal', async () => {
  expect((await ci(shell('exit 7'))).code).toBe(7);
  expect((await ci(shell('kill -TERM $$'))).code).toBe(143);
  expect(await ci(['--', join(folder, 'none')])).toMatchObject({
    code: 127,
    stderr: expect.stringContaining('did not start'),
  });
  expect(readdirSync(temporary)).toEqual([]);
});

test('a policy comes from a git ref that the working tree can not change', async () => {
  const git = (...args: string[]) =>
    execFileSync('git', ['-C', project, '-c', 'user.name=a', '-c', 'user.email=a@b', ...args]);
  git('init', '--quiet', '--initial-branch=main');
  mkdirSync(join(project, 'rules'));
  writeFileSync(join(project, 'rules/ci.yaml'), 'version: 1\nextends: ../base.yaml\n');
  writeFileSync(join(project, 'base.yaml'), POLICY);
  git('add', '.');
  git('commit', '--quiet', '-m', 'a');
  writeFileSync(join(project, 'base.yaml'), 'version: 1\nextends: default\ntiers: { execute: { decision: allow } }\n');
  const job = shell(
    call('terminal_execute', "command='python3 check.py'"),
    `${call('terminal_execute', "command='python3 -V'")} || true`,
  );
  const run = await ci(['--policy', 'git:main:rules/ci.yaml', ...job]);
  expect([run.code, run.stdout], run.stderr).toEqual([4, 'checked\n']);
  expect(await ci(['--policy', 'git:--help:x', ...shell('true')])).toMatchObject({ code: 2 });
});

test('a bundle runs only with its digest and a signature of the key that is asked for', async () => {
  const openssl = (...args: string[]) => execFileSync('openssl', args, { cwd: folder, stdio: 'ignore' });
  for (const name of ['ours', 'others']) {
    openssl('genpkey', '-algorithm', 'ed25519', '-out', `${name}.pem`);
    openssl('pkey', '-in', `${name}.pem`, '-pubout', '-out', `${name}.pub`);
  }
  const bundle = (...args: string[]) =>
    runCli({ stateDir: '/nonexistent', socket: '/nonexistent', workspace: folder }, ['policy', 'bundle', ...args]);
  const built = await bundle('build', 'ci.yaml', '--output', 'ci.json', '--json');
  const { digest } = JSON.parse(built.stdout) as { digest: string };
  expect((await bundle('sign', 'ci.json', '--key', 'ours.pem')).code).toBe(0);
  expect((await bundle('verify', 'ci.json', '--key', 'ours.pub')).code).toBe(0);
  expect(await bundle('verify', 'ci.json', '--key', 'others.pub')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('has no signature of the key'),
  });
  const ran = join(folder, 'ran');
  const job = (...args: string[]) =>
    ci([
      '--policy',
      join(folder, 'ci.json'),
      ...args,
      ...shell(`touch ${ran}`, call('terminal_execute', "command='python3 check.py'")),
    ]);
  expect(await job('--policy-key', join(folder, 'others.pub'))).toMatchObject({ code: 2 });
  expect(await job('--policy-digest', `sha256:${'0'.repeat(64)}`)).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('nothing was run, since the policy is refused'),
  });
  expect(readdirSync(folder)).not.toContain('ran');
  const run = await job('--policy-digest', digest, '--policy-key', join(folder, 'ours.pub'));
  expect([run.code, run.stdout], run.stderr).toEqual([0, 'checked\n']);
});

test('a job without a command, a place for its record or a valid policy does not begin', async () => {
  expect(await ci([])).toMatchObject({ code: 2, stderr: expect.stringContaining('ringfence ci [options] -- COMMAND') });
  const ran = join(folder, 'ran-too');
  const job = shell(`touch ${ran}`);
  expect(await ci(['--audit', join(folder, 'none/a.jsonl'), ...job])).toMatchObject({ code: 2 });
  writeFileSync(join(folder, 'wrong.yaml'), 'version: 1\nrulez: []\n');
  const wrong = await ci(['--policy', join(folder, 'wrong.yaml'), ...job]);
  expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringContaining('wrong.yaml:2:1: rulez')]);
  expect(readdirSync(folder)).not.toContain('ran-too');
  expect(readdirSync(temporary)).toEqual([]);
});
