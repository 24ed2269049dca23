/** `ringfence sh` beside bash itself, and agents that `ringfence wrap` starts. */
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { beginCli, endOf, type RunOptions, runCli } from '../support/cli.ts';
import { type OpenDaemon, openDaemon, processesWith, until } from '../support/daemon.ts';

/** AddressSanitizer looks for leaks by tracing its own threads. */
const SANITIZED =
  'echo "void *malloc(); void *p; int main() { p = malloc(9); p = 0; }" >a.c; cc -w -fsanitize=address a.c && ./a.out; echo $?';
const NO_SHADOW = 'without control groups, memory is bounded by addresses, of which the sanitizer reserves terabytes';
const DEBUGGED = 'gdb -batch -ex "break main" -ex run -ex "print 40 + 2" -ex kill ./b.out 2>&1 | grep -c "= 42"';
const POLICY = `
tiers:
  execute: { decision: allow }
rules:
  - { id: no-secrets, match: { path: secret.txt }, decision: deny, reason: It is a secret. }
`;
let daemon: OpenDaemon;
beforeAll(async () => {
  daemon = await openDaemon({ policy: POLICY });
  mkdirSync(join(daemon.workspace, 'sub'));
  writeFileSync(join(daemon.workspace, 'script.sh'), 'echo "$0 has $# words: $*"; exit 5\n');
  writeFileSync(join(daemon.workspace, 'secret.txt'), 'TOP\n');
});
afterAll(() => daemon[Symbol.asyncDispose]());

async function bash(args: readonly string[], { stdin = '' }: RunOptions) {
  const child = spawn('/bin/bash', [...args], { cwd: daemon.workspace, env: { PATH: process.env.PATH ?? '' } });
  child.stdin.on('error', () => {}); // It ended without reading.
  child.stdin.end(stdin);
  const [code, stdout] = await Promise.all([endOf(child), buffer(child.stdout)]);
  return { code, stdout: stdout.toString() };
}

describe('ringfence sh beside bash, with the same arguments', () => {
  test.for<[string, string[], RunOptions?]>([
    ['a command', ['-c', 'echo hello']],
    ['a login shell', ['-lc', 'echo "a  b"']],
    ['options apart', ['-l', '-c', 'echo $((6*7))']],
    ['the name and parameters behind the command', ['-c', 'echo "$0 $1 $2 $#"', 'name', "it's", 'two words']],
    ['an exit code', ['-c', 'exit 7']],
    ['a signal', ['-c', 'kill -9 $$']],
    ['errors that end the command', ['-ec', 'false; echo not reached']],
    ['options by name', ['-euo', 'pipefail', '-c', 'false | true; echo not reached']],
    ['a trace switched off', ['+x', '-c', 'echo quiet']],
    ['output without a line end, and both streams', ['-c', 'printf out; printf err >&2']],
    ['a pipe, a redirection and a here document', ['-c', 'cat <<X | tr a-z A-Z >out.txt\nhere\nX\ncat out.txt']],
    ['a script in a file', ['script.sh', 'one', 'two words']],
    ['standard input of a command', ['-c', 'wc -c'], { stdin: 'twelve bytes' }],
    ['a script on standard input', [], { stdin: 'cd sub\npwd | sed s,.*/,,\nX=1\necho $X\nexit 3\n' }],
    ['a script on standard input with parameters', ['-s', 'a', 'b'], { stdin: 'echo $2 $1\n' }],
    [
      'folders and variables that stay for the next command',
      ['-c', 'cd sub && export A=5; pwd | sed s,.*/,,; sh -c "echo $A"'],
    ],
    ['a program that AddressSanitizer checks', ['-c', SANITIZED]],
    ['a program in a debugger', ['-c', `echo "int main() { return 0; }" >b.c; cc -g b.c -o b.out && ${DEBUGGED}`]],
    ['a trace of system calls', ['-c', 'strace -fqq -e execve -o t sh -c "/bin/true; /bin/true"; grep -c execve t']],
    ['nothing', ['-c', '']],
    ['a program that is not installed', ['-c', 'no-such-program-at-all']],
    ['names that look like flags of ringfence', ['-c', 'echo "$@"', 'x', '--json', '--socket', '--help']],
  ])('ringfence sh gives the output and exit code of bash for %s', async ([_, args, options = {}], { skip }) => {
    skip(args.includes(SANITIZED) && daemon.confinement.cgroup === 'none', NO_SHADOW);
    const [ours, theirs] = [await runCli(daemon, ['sh', ...args], options), await bash(args, options)];
    expect({ code: ours.code, stdout: ours.stdout }).toEqual({ code: theirs.code ?? 137, stdout: theirs.stdout });
  });
});

test('a command is recorded as the agent wrote it, and nothing is said beside its output', async () => {
  const run = await runCli(daemon, ['sh', '-lc', 'echo "one" && echo two']);
  expect(run).toEqual({ code: 0, stdout: 'one\ntwo\n', stderr: '' });
  await using client = await daemon.connect({ role: 'operator' });
  const { entries } = (await client.request('audit.query', { tool: 'terminal_execute', limit: 10 })) as {
    entries: { detail?: unknown }[];
  };
  expect(JSON.stringify(entries)).toContain(String.raw`echo \"one\" && echo two`);
});

test('a command that the policy denies exits with 126 and says why, and reads nothing', async () => {
  const run = await runCli(daemon, ['sh', '-c', 'cat secret.txt']);
  expect(run).toMatchObject({ code: 126, stdout: '' });
  expect(run.stderr).toContain('It is a secret.');
});

test.each([
  ['an option that bash has not', ['-Zc', 'true'], /-Zc: no option/],
  ['no command', ['-c'], /-c: option requires an argument/],
])('%s is refused with the words', async (_, args, words) => {
  const run = await runCli(daemon, ['sh', ...args]);
  expect(run).toMatchObject({ code: 2, stdout: '' });
  expect(run.stderr).toMatch(words);
});

test('a pipe that nobody writes to or closes holds up no command', async () => {
  const { child: open, stdout } = beginOpen(['sh', '-c', 'echo done']);
  expect(await endOf(open)).toBe(0);
  expect(stdout()).toBe('done\n');
});

/** A command line whose standard input stays open. */
function beginOpen(args: readonly string[]) {
  const child = beginCli(daemon, args, { keepsInput: true });
  let text = '';
  child.stdout.on('data', (piece: Buffer) => {
    text += piece.toString();
  });
  return { child, stdout: () => text };
}

test('a signal ends the command, and the exit code says so', async () => {
  const { child, stdout } = beginOpen(['sh', '-c', 'echo began; : marker-of-a-shell; sleep 600']);
  await until(() => stdout() === 'began\n');
  child.kill('SIGTERM');
  expect(await endOf(child)).toBe(143);
  await until(() => processesWith('marker-of-a-shell; sleep').length === 0);
});

describe('an agent that ringfence wrap starts', () => {
  const agent = (text: string): string => {
    const path = join(daemon.stateDir, 'agent.mjs');
    writeFileSync(path, `import { spawnSync, execSync } from 'node:child_process';\n${text}`);
    return path;
  };
  const wrapped = (text: string, options?: RunOptions) =>
    runCli(daemon, ['wrap', '--workspace', daemon.workspace, '--', process.execPath, agent(text)], options);

  test('gets the sandbox however it starts a shell', async () => {
    const run = await wrapped(`
      const ways = [
        () => execSync('bash -lc "ls /proc | grep -c ^[0-9]"', { shell: process.env.SHELL }),
        () => spawnSync('bash', ['-lc', 'ls /proc | grep -c ^[0-9]']).stdout,
        () => spawnSync('sh', ['-c', 'ls /proc | grep -c ^[0-9]']).stdout,
        () => spawnSync('zsh', ['-c', 'ls /proc | grep -c ^[0-9]']).stdout,
        () => spawnSync(process.env.SHELL, ['-c', 'ls /proc | grep -c ^[0-9]']).stdout,
        () => spawnSync('bash', { input: 'ls /proc | grep -c ^[0-9]' }).stdout,
        () => spawnSync('env', ['bash', '-c', 'ls /proc | grep -c ^[0-9]']).stdout,
      ];
      // A sandbox has its own processes alone.
      console.log(ways.map((it) => Number(it())).every((it) => it > 0 && it < 10));
    `);
    expect(run).toMatchObject({ code: 0, stdout: 'true\n' });
  });

  test('passes on what it exports itself, and nothing of the environment that it was started with', async () => {
    const run = await wrapped(
      `
      process.env.ADDED = 'by the agent';
      process.stdout.write(spawnSync('bash', ['-c', 'echo "$ADDED/$PERSONS_KEY/$SHELL"; cd sub; pwd']).stdout);
      process.stdout.write(spawnSync('bash', ['-c', 'touch ../from-below'], { cwd: 'sub' }).stderr);
      process.exit(9);
    `,
      { env: { PERSONS_KEY: 'k-12345' } },
    );
    expect(run.stderr).toBe('');
    expect(run.code).toBe(9);
    const [environment = '', folder] = run.stdout.split('\n');
    expect(environment).toMatch(/^by the agent\/\//);
    expect(environment).not.toContain('k-12345');
    expect(folder).toBe(join(daemon.workspace, 'sub'));
    expect(existsSync(join(daemon.workspace, 'from-below'))).toBe(true);
  });

  test('removes what a run that was killed has left', async () => {
    const left = join(daemon.stateDir, `wrap-${2 ** 22 + 1}-x`); // No process has such an id.
    mkdirSync(left);
    await wrapped('');
    expect(existsSync(left)).toBe(false);
  });

  test('leaves no folder of shells behind, and a program that is missing is told', async () => {
    const run = await wrapped('console.log(process.env.SHELL)');
    expect(existsSync(run.stdout.trim())).toBe(false);
    const missing = await runCli(daemon, ['wrap', '--', '/nowhere/agent']);
    expect(missing).toMatchObject({ stderr: expect.stringContaining('started'), code: 127 });
    expect(missing.stderr).toContain("/nowhere/agent can't be started");
    expect(readFileSync(join(daemon.workspace, 'secret.txt'), 'utf8')).toBe('TOP\n');
  });
});
