/**
 * Files that a command makes at names that the person's programs run, under a policy that allows commands: none is in
 * sight a second later, whatever the way, while the person looks each few milliseconds.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { ToolResult } from '../../src/base/call.ts';
import type { Client } from '../../src/client/client.ts';
import type { Approval } from '../../src/store/approvals/approval.ts';
import { startDaemon, type TestDaemon, until } from '../support/daemon.ts';

let daemon: TestDaemon;
let client: Client;
let operator: Client;
beforeAll(async () => {
  daemon = await startDaemon();
  client = await daemon.connect();
  operator = await daemon.connect({ role: 'operator' });
  execFileSync('git', ['init', '-q', daemon.workspace]);
});
afterAll(async () => {
  await operator[Symbol.asyncDispose]();
  await client[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});

const at = (path: string) => join(daemon.workspace, path);
const put = (path: string, text: string) => {
  mkdirSync(dirname(at(path)), { recursive: true });
  writeFileSync(at(path), text);
};
const run = (command: string, more: object = {}) =>
  client.call('terminal_execute', { command, ...more }) as Promise<ToolResult<{ stdout: string; exitCode: number }>>;
interface Listed {
  readonly items: readonly { path: string }[];
  readonly done: readonly string[];
  readonly errors: readonly { code: string }[];
}
const quarantine = (params: object = {}) => operator.request('session.quarantine', params) as Promise<Listed>;
const pathsOf = ({ metadata }: ToolResult) => (metadata.quarantined ?? []).map(({ path }) => path).sort();
async function questionOf({ metadata }: ToolResult): Promise<Approval> {
  const { approvals } = (await operator.request('approvals.list', {})) as { approvals: Approval[] };
  return approvals.find((it) => it.approvalId === metadata.quarantined?.[0]?.approvalId) as Approval;
}

/** How long a path was in sight, in milliseconds, while `work` went on. */
async function seenWhile(path: string, work: Promise<unknown>): Promise<number> {
  let isOver = false;
  void work.finally(() => (isOver = true));
  let [first, last] = [0, 0];
  while (!isOver) {
    if (existsSync(at(path))) {
      first ||= performance.now();
      last = performance.now();
    }
    await delay(5);
  }
  return last - first;
}

beforeEach(async () => {
  const { items } = await quarantine();
  await quarantine({ drop: items.map(({ path }) => path) });
});

describe('a command that sleeps after it made a protected name', () => {
  test.each([
    ['writes it', 'mkdir -p x/.vscode && echo evil > x/.vscode/tasks.json', 'x/.vscode/tasks.json'],
    ['renames a folder', 'mkdir -p y/v && echo evil > y/v/tasks.json && mv y/v y/.vscode', 'y/.vscode/tasks.json'],
    ['renames a file', 'echo evil > plain && mv plain mise.local.toml', 'mise.local.toml'],
    ['links a file', 'echo evil > plain2 && ln plain2 .gdbinit', '.gdbinit'],
    ['makes a link', 'mkdir -p evil && ln -s evil .idea', '.idea'],
    [
      'copies a fixture',
      'mkdir -p f/.claude && echo 1 > f/.claude/settings.json && cp -r f g',
      'g/.claude/settings.json',
    ],
    [
      'unpacks an archive',
      'mkdir -p a/.husky/_ && echo 1 > a/.husky/_/x && tar cf a.tar a && mkdir t && tar xf a.tar -C t',
      't/a/.husky/_',
    ],
    ['makes a deep one', 'n=npmrc; mkdir -p d/e/f/g/h/i/j && echo 1 > d/e/f/g/h/i/j/.$n', 'd/e/f/g/h/i/j/.npmrc'],
    ['closes its folder', 'mkdir -p c/.zed && echo 1 > c/.zed/tasks.json && chmod 0 c/.zed', 'c/.zed/tasks.json'],
    ['replaces one', 'mkdir -p q && echo 1 > q/.mcp.json.new && echo 2 > q/n && mv q/n q/.mcp.json', 'q/.mcp.json'],
  ])('%s: it is gone within a second, and told', async (_, command, path) => {
    const work = run(`${command}; sleep 1.5; ls -A ${dirname(path)}`);
    expect(await seenWhile(path, work)).toBeLessThan(1_000);
    const result = await work;
    expect(existsSync(at(path))).toBe(false);
    // A folder that its owner closed is told of as a whole, unless root looks.
    expect(pathsOf(result).filter((it) => it === path || path.startsWith(`${it}/`))).toHaveLength(1);
  });
});

test('a name that a command makes at its very end is gone with its result, and comes back by `keep`', async () => {
  const result = await run('mkdir .devcontainer; echo evil > .devcontainer/devcontainer.json; echo 1 > .tool-versions');
  expect(result).toMatchObject({ success: true, data: { exitCode: 0 } });
  expect(pathsOf(result)).toEqual(['.devcontainer/devcontainer.json', '.tool-versions']);
  expect(result.metadata.warnings?.join()).toMatch(/moved out of the workspace.*\.devcontainer/);
  const question = await questionOf(result);
  expect(question).toMatchObject({
    rule: 'protected-names',
    diff: expect.stringContaining('+evil'),
    impact: { level: 'high' },
  });
  put('.tool-versions', 'by the person');
  const kept = await quarantine({ keep: ['.devcontainer/devcontainer.json', '.tool-versions'] });
  expect(kept.done).toEqual(['.devcontainer/devcontainer.json']);
  expect(kept.errors).toMatchObject([{ code: 'CONFLICT' }]);
  expect(readFileSync(at('.devcontainer/devcontainer.json'), 'utf8')).toBe('evil\n');
  expect(readFileSync(at('.tool-versions'), 'utf8')).toBe('by the person');
  expect(JSON.stringify(await operator.request('approvals.list', {}))).toContain(question.approvalId);
  await quarantine({ drop: ['.tool-versions'] });
  await until(async () => !JSON.stringify(await operator.request('approvals.list', {})).includes(question.approvalId));
});

test('an answer to the question puts back what was shown, or removes it', async () => {
  const yes = await questionOf(await run('echo 1 > lefthook-local.yml'));
  await operator.request('approvals.resolve', { approvalId: yes.approvalId, decision: 'approve' });
  await until(() => existsSync(at('lefthook-local.yml')));
  const no = await questionOf(await run('echo 2 > opencode.json'));
  await operator.request('approvals.resolve', { approvalId: no.approvalId, decision: 'deny' });
  await until(async () => (await quarantine()).items.length === 0);
  expect(existsSync(at('opencode.json'))).toBe(false);
});

test('a folder that was there before stays as it is, and so does a file that the person saves in it meanwhile', async () => {
  put('.kiro/steering.md', 'old');
  const work = run('sleep 1; echo evil > .kiro/steering.md; echo evil > .kiro/new; rm -rf .kiro; true');
  await delay(300);
  put('.kiro/steering.md', 'saved');
  put('.kiro/more.md', 'saved');
  expect(pathsOf(await work)).toEqual([]);
  expect(readFileSync(at('.kiro/steering.md'), 'utf8')).toBe('saved');
  expect(readFileSync(at('.kiro/more.md'), 'utf8')).toBe('saved');
  expect(existsSync(at('.kiro/new'))).toBe(false);
});

test('extensions, snippets and names in installed packages pass', async () => {
  const result = await run(
    'mkdir -p v/.vscode v/node_modules/p/.vscode; echo {} > v/.vscode/extensions.json; echo 1 > v/node_modules/p/.vscode/tasks.json',
  );
  expect(pathsOf(result)).toEqual([]);
  expect(existsSync(at('v/.vscode/extensions.json'))).toBe(true);
  expect(existsSync(at('v/node_modules/p/.vscode/tasks.json'))).toBe(true);
});

test('a folder that is swapped for a link out of the workspace is not followed', async () => {
  const outside = join(dirname(daemon.workspace), 'outside-of-it');
  mkdirSync(join(outside, '.vscode'), { recursive: true });
  writeFileSync(join(outside, '.vscode/tasks.json'), 'of the person');
  try {
    const loop = `for i in $(seq 40); do rm -rf s; mkdir -p s/.vscode; echo 1 > s/.vscode/tasks.json; mv s s2; ln -s ${outside} s; sleep 0.01; rm -rf s s2; done`;
    await run(loop);
    expect(readFileSync(join(outside, '.vscode/tasks.json'), 'utf8')).toBe('of the person');
  } finally {
    rmSync(outside, { recursive: true });
  }
});

describe('a text that the person has committed', () => {
  const git = (...words: string[]) =>
    execFileSync('git', ['-c', 'user.name=p', '-c', 'user.email=p@x', ...words], { cwd: daemon.workspace });

  test('a checkout by a command brings it back unasked, and another text in a commit of a command is moved away', async () => {
    put('.vscode/launch.json', 'of the person\n');
    put('README', 'x');
    git('add', '-A');
    git('commit', '-qm', 'with');
    git('checkout', '-qb', 'without');
    git('rm', '-rq', '.vscode/launch.json');
    git('commit', '-qm', 'without');
    git('branch', 'moved');
    const [branch] = git('branch', '--list', 'ma*', '--format=%(refname:short)').toString().split('\n') as [string];
    const out = await run(`git checkout -q ${branch}; sleep 1; git status --porcelain --untracked-files=no`);
    expect(out).toMatchObject({ data: { exitCode: 0, stdout: '' } });
    expect(pathsOf(out)).toEqual([]);
    expect(readFileSync(at('.vscode/launch.json'), 'utf8')).toBe('of the person\n');

    git('checkout', '-q', 'moved');
    const forged =
      'b=$(echo evil | git hash-object -w --stdin); git update-index --add --cacheinfo 100644,$b,.vscode/launch.json; ' +
      'git -c user.name=a -c user.email=a@x commit -qm evil; git checkout -q -- .vscode';
    expect(pathsOf(await run(forged))).toEqual(['.vscode/launch.json']);
    // The commit is that of a command, also for the next one.
    expect(pathsOf(await run('git checkout -q -- .vscode'))).toEqual(['.vscode/launch.json']);
  });
});

// Last, since commits of the person count only if no program of a call went on meanwhile.
test('a name that a background command makes is moved away and asked about', async () => {
  const started = await run('sleep 0.5; mkdir bg; echo evil > bg/.nvimrc; sleep 30', { background: true });
  expect(started.success).toBe(true);
  await until(async () => (await quarantine()).items.some(({ path }) => path === 'bg/.nvimrc'));
  expect(existsSync(at('bg/.nvimrc'))).toBe(false);
  const { approvals } = (await operator.request('approvals.list', {})) as { approvals: Approval[] };
  expect(approvals.map((it) => it.diff).join()).toContain('bg/.nvimrc');
  await client.call('terminal_kill', { handle: (started as unknown as { data: { handle: string } }).data.handle });
});
