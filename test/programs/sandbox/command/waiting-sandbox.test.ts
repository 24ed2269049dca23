/** A sandbox prepared before its command behaves like any other, or is not used. */
import {
  existsSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as fc from 'fast-check';
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { defaultLimits as limits } from '../../../../src/base/limits.ts';
import { type Powers, systemPowers } from '../../../../src/base/powers.ts';
import { runCommand } from '../../../../src/sandbox/command/command.ts';
import type { CommandRequest, CommandSetup } from '../../../../src/sandbox/command/request.ts';
import { beginWaiting, shapeOf } from '../../../../src/sandbox/command/start.ts';
import { WaitingSandbox, WaitingSandboxes } from '../../../../src/sandbox/command/waiting-sandbox.ts';
import { NO_MASKS } from '../../../../src/sandbox/masks.ts';
import { firstChildOf } from '../../../../src/sandbox/proc.ts';
import { commandSetupOf } from '../../../support/command-setup.ts';
import { until } from '../../../support/daemon.ts';

/** Pids of all processes started since. */
let started: number[];
const system = systemPowers();
const powers: Powers = {
  ...system,
  spawn(command, args, options) {
    const child = system.spawn(command, args, options);
    started.push(child.pid as number);
    return child;
  },
};

const folder = realpathSync(mkdtempSync(join(tmpdir(), 'ringfence-waiting-')));
const workspace = join(folder, 'ws');
const bounds = { ...limits.commandMax, outputBytes: 65_536 };
let base: CommandSetup;
let waiting: WaitingSandbox;
beforeAll(async () => {
  mkdirSync(workspace);
  base = await commandSetupOf(workspace, folder, system);
  return () => rmSync(folder, { recursive: true });
});
beforeEach(() => {
  started = [];
  waiting = new WaitingSandbox(base, powers);
});
afterEach(() => waiting[Symbol.dispose]());

const requestOf = (command: string, rest: Partial<CommandRequest> = {}): CommandRequest => ({
  command,
  cwd: workspace,
  env: {},
  workspace,
  masks: NO_MASKS,
  bounds,
  signal: new AbortController().signal,
  ...rest,
});

/** Runs a command in a prepared sandbox or a new one; afterwards another one is prepared. */
async function run(command: string, { isLate, ...rest }: Partial<CommandRequest> & { isLate: boolean }) {
  const before = started.length;
  const running = runCommand(requestOf(command, rest), { ...base, waiting }, powers);
  expect(started.length).toBe(isLate ? before : before + 1);
  const outcome = await running;
  waiting.prepare();
  return outcome;
}

/** Runs a command in a prepared sandbox, whatever came before. */
async function runLate(command: string, rest: Partial<CommandRequest> = {}) {
  // Twice, so that it replaces one prepared for other commands.
  for (let i = 0; i < 2; i++) await runCommand(requestOf(':', rest), { ...base, waiting }, powers);
  waiting.prepare();
  return run(command, { ...rest, isLate: true });
}

test('a command does the same in a waiting sandbox as in a new one', async () => {
  const commands = [
    'echo $LINENO $# $0 $-\nnosuch\nf() { caller; }\nf',
    'echo a\nfi',
    'exit 7',
    'kill -TERM $$',
    'ulimit -f; echo ${RANDOM:+set}',
    'set -x; echo traced',
    'set -e; false; echo after',
    'cat; ls -l /proc/self/fd | cut -d: -f2- | cut -d" " -f2',
  ];
  for (const command of commands) {
    const env = { MINE: "it's\n`two`", REPLY: 'taken' };
    const { durationMs: _, used: __, ...own } = await runCommand(requestOf(command, { env }), base, powers);
    const { durationMs: ___, used: ____, ...late } = await runLate(command, { env });
    expect(late, command).toEqual(own);
  }
}, 30_000);

test('commands and programs that only read, in turns, each find a sandbox that waits', async () => {
  using both = new WaitingSandboxes(base, powers);
  const setup = { ...base, waiting: both };
  for (const readOnly of [false, true]) {
    await runCommand(requestOf('true', { readOnly }), setup, powers);
    await until(() => started.length === (readOnly ? 4 : 2));
    // Until it is complete.
    await runCommand(requestOf('sleep 0.2'), base, powers).then(() => started.pop());
  }
  for (const readOnly of [false, true, false, true]) {
    const before = started.length;
    const running = runCommand(requestOf('echo 1', { readOnly }), setup, powers);
    expect(started.length).toBe(before);
    expect((await running).stdout).toBe('1\n');
    await until(() => started.length === before + 1);
  }
}, 20_000);

test('one of two commands at once takes the waiting sandbox and the other gets a new one', async () => {
  await runLate('true');
  const before = started.length;
  const first = runCommand(requestOf('echo 1'), { ...base, waiting }, powers);
  expect(started.length).toBe(before);
  const second = runCommand(requestOf('echo 2'), { ...base, waiting }, powers);
  expect(started.length).toBe(before + 1);
  expect([(await first).stdout, (await second).stdout]).toEqual(['1\n', '2\n']);
});

test('a sandbox for commands of another kind is replaced by one for the last command', async () => {
  await run('true', { isLate: false });
  const [, other] = started as [number, number];
  await run('true', { readOnly: true, isLate: false });
  await until(() => !isThere(other));
  expect(await run('echo here', { readOnly: true, isLate: true })).toMatchObject({ stdout: 'here\n' });
});

test('the time that a sandbox waited does not count for its command', async () => {
  await run('true', { isLate: false });
  await new Promise((resolve) => setTimeout(resolve, 1100));
  const { stdout, durationMs } = await run('echo $SECONDS', { isLate: true });
  expect(stdout).toBe('0\n');
  expect(durationMs).toBeLessThan(1000);
});

test('the variables and arguments of a command reach it unchanged, and none of ours does', async () => {
  const word = fc.string({ unit: 'grapheme', maxLength: 20 }).filter((it) => !it.includes('\0'));
  await fc.assert(
    fc.asyncProperty(fc.array(word, { maxLength: 4 }), word, async (words, value) => {
      const argv = ['/bin/sh', '-c', 'printf "%s\\0" "$MINE" "$@"; env -0 | grep -z ^RINGFENCE', 'sh', ...words];
      const { captured } = await runLate('', { argv, env: { MINE: value }, captureBytes: 65_536 });
      expect(captured?.toString()).toBe([value, ...words].map((it) => `${it}\0`).join(''));
    }),
    { numRuns: 10 },
  );
}, 30_000);

test('a file that was hidden while a sandbox waited is hidden from the command', async () => {
  await run('true', { isLate: false });
  writeFileSync(join(workspace, 'late-secret'), 'secret');
  const masks = hiding('late-secret');
  expect(await run('cat late-secret', { masks, isLate: false })).toMatchObject({ stdout: '', exitCode: 1 });
});

const hiding = (path: string) => ({ ...NO_MASKS, hidden: [{ path, type: 'file' as const }] });
const holding = (path: string) => ({ ...NO_MASKS, readOnly: [path] });
/** The result of a command that writes to a protected file. */
const REFUSED = { stderr: expect.stringMatching(/Read-only file system/), exitCode: 1 };
/** Long enough to build one. */
const built = () => new Promise((resolve) => setTimeout(resolve, 150));

describe('a sandbox that lost a mask', () => {
  const at = (name: string) => join(workspace, name);
  const write = (name: string) => writeFileSync(at(name), 'secret');
  const remade = (make: () => void) => () => {
    rmSync(at('kept'));
    make();
  };
  const cases: [string, () => void][] = [
    ['the file is another one by rename', remade(() => renameSync(at('other'), at('kept')))],
    ['the file is another one, made anew', remade(() => write('kept'))],
    // Its inode is the masked one.
    ['the file came back by another name', remade(() => linkSync(at('link'), at('kept')))],
  ];
  test.each(cases)('%s: the file is protected all the same', async (_, change) => {
    for (const name of ['kept', 'link']) rmSync(at(name), { force: true });
    for (const name of ['kept', 'other']) write(name);
    linkSync(at('kept'), at('link'));
    const masks = holding('kept');
    await built();
    await run('true', { masks, isLate: false });
    await built();
    change();
    expect(await run('echo x >kept', { masks, isLate: false })).toMatchObject(REFUSED);
  });

  test('a folder is another one', async () => {
    mkdirSync(at('folder'));
    write('folder/secret');
    const masks = holding('folder');
    await built();
    await run('true', { masks, isLate: false });
    await built();
    write('folder/more');
    expect(await run('echo x >folder/secret', { masks, isLate: true })).toMatchObject(REFUSED);
    await built();
    waiting.prepare();
    await built();
    rmSync(at('folder'), { recursive: true });
    mkdirSync(at('folder'));
    write('folder/secret');
    expect(await run('echo x >folder/secret', { masks, isLate: false })).toMatchObject(REFUSED);
  });

  test.each(['vault', 'above/vault'])('%s was away while its mask was mounted, and is back now', async (path) => {
    const [top = ''] = path.split('/');
    mkdirSync(at(path), { recursive: true });
    write(`${path}/secret`);
    const masks = { ...holding(path), pinned: top === path ? [] : [top] };
    await built();
    await run('true', { masks, isLate: false });
    waiting[Symbol.dispose]();
    waiting.prepare();
    renameSync(at(top), at('away'));
    mkdirSync(at(path), { recursive: true });
    await built();
    rmSync(at(top), { recursive: true });
    renameSync(at('away'), at(top));
    const command = requestOf(`echo x >${path}/secret`, { masks });
    expect(await runCommand(command, { ...base, waiting }, powers)).toMatchObject(REFUSED);
  });

  test('a sandbox that hides a file is not built ahead: a file that is removed meanwhile would be created again', async () => {
    write('fresh');
    await built();
    await run('true', { masks: hiding('fresh'), isLate: false });
    expect(started.length).toBe(1);
  });

  test('a masked file is another one while nothing is built yet', async () => {
    write('fresh');
    const masks = holding('fresh');
    await built();
    await run('true', { masks, isLate: false });
    waiting[Symbol.dispose]();
    waiting.prepare();
    rmSync(at('fresh'));
    write('fresh');
    const command = requestOf('echo x >fresh', { masks });
    expect(await runCommand(command, { ...base, waiting }, powers)).toMatchObject(REFUSED);
  });
});

test('a mask whose name the kernel escapes is known where it is', async () => {
  const name = 'a b\\040\tc\nd';
  writeFileSync(join(workspace, name), 'secret');
  const masks = holding(name);
  await built();
  await run('true', { masks, isLate: false });
  await built();
  expect(await run('for it in a\\ b*; do echo x >"$it"; done', { masks, isLate: true })).toMatchObject(REFUSED);
});

test('a command runs in the directory that has the name now, whatever became of the one that had it', async () => {
  const cwd = join(workspace, 'place');
  const changes = [
    () => rmdirSync(cwd),
    () => renameSync(cwd, join(workspace, 'moved')), // Its process would still be in it.
  ];
  for (const change of changes) {
    mkdirSync(cwd, { recursive: true });
    await run('true', { cwd, isLate: false });
    await built();
    change();
    mkdirSync(cwd);
    expect(await run('/bin/pwd', { cwd, isLate: false })).toMatchObject({ stdout: `${cwd}\n` });
    waiting[Symbol.dispose]();
  }
});

test('a command that is given input, may use less, works elsewhere, or is too long to come late gets one of its own', async () => {
  await run('true', { isLate: false });
  const less = { ...bounds, memoryMb: bounds.memoryMb - 1 };
  mkdirSync(join(workspace, 'below'), { recursive: true });
  for (const [command, rest] of [
    ['cat', { stdin: 'given' }],
    ['printf given', { bounds: less }],
    ['printf given', { cwd: join(workspace, 'below') }],
    ['printf given', { readOnly: true }],
    ['printf given', { env: { RANDOM: '1' } }],
    [`printf given #${'x'.repeat(8192)}`, {}],
  ] as const)
    expect(await run(command, { ...rest, isLate: false })).toMatchObject({ stdout: 'given', exitCode: 0 });
});

function isThere(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false; // ESRCH.
  }
}

test('a NUL in a word of it is no end of an argument of bubblewrap: such a command does not run', async () => {
  writeFileSync(join(workspace, 'masked'), 'secret');
  const masks = { ...NO_MASKS, hidden: [{ path: 'masked', type: 'file' } as const] };
  const value = ['a', '--bind', workspace, workspace].join('\0');
  const command = 'cat masked';
  const wordless = { command: `${command} #${'x'.repeat(131_050)}` };
  for (const it of [
    { env: { MINE: value } },
    { env: { RANDOM: value } },
    { argv: ['/bin/cat', 'masked', value] },
    { cwd: value },
    { command: `${command} #${value}` },
    { ...wordless, env: { SECONDS: value } },
  ]) {
    const running = runCommand(requestOf(command, { masks, ...it }), { ...base, waiting }, powers);
    await expect(running, JSON.stringify(it).slice(0, 80)).rejects.toMatchObject({ code: 'INPUT_INVALID' });
  }
  await until(() => !started.some(isThere));
});

test('a sandbox that is killed while it waits is replaced, and no second one waits', async () => {
  await run('true', { isLate: false });
  waiting.prepare();
  expect(started.length).toBe(2);
  // Kills its init: if bubblewrap died before it told the init its pid, the init would wait for ever.
  await until(() => firstChildOf(started[1] as number) !== undefined);
  process.kill(firstChildOf(started[1] as number) as number, 'SIGKILL');
  await until(() => {
    waiting.prepare();
    return started.length === 3;
  });
  expect(await run('echo here', { isLate: true })).toMatchObject({ stdout: 'here\n' });
});

/** Whether a process has not ended yet; one that nobody has waited for has. */
function runs(pid: number): boolean {
  try {
    return !/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return false; // ENOENT, ESRCH: it was reaped.
  }
}

/** Starts building a sandbox that the next command takes first. */
async function begin() {
  await run('true', { isLate: false });
  waiting[Symbol.dispose]();
  waiting.prepare();
  return started.at(-1) as number;
}

test('a command whose sandbox is ended while it is built gets one of its own', async () => {
  const bubblewrap = await begin();
  // Kills its init: if bubblewrap were killed first, it would leave the init behind.
  const deadline = performance.now() + 60_000;
  let init: number | undefined;
  // In one turn of the loop; otherwise it is complete by then.
  while (init === undefined && performance.now() < deadline) init = firstChildOf(bubblewrap);
  process.kill(init as number, 'SIGKILL');
  // A signal is only sent here: on a loaded machine the process runs on for a while, and the command would be given to it.
  while (runs(init as number) && performance.now() < deadline);
  const outcome = await runCommand(requestOf('echo here'), { ...base, waiting }, powers);
  expect(outcome).toMatchObject({ stdout: 'here\n', exitCode: 0 });
});

test('a command that is cancelled while its sandbox is built never runs, and nothing is left of it', async () => {
  await begin();
  const cancel = new AbortController();
  const request = requestOf('touch ran; sleep 100', { signal: cancel.signal });
  const running = runCommand(request, { ...base, waiting }, powers);
  cancel.abort();
  expect(await running).toMatchObject({ ended: 'aborted' });
  waiting[Symbol.dispose]();
  await until(() => !started.some(isThere));
  expect(existsSync(join(workspace, 'ran'))).toBe(false);
});

/** Ends the input of a waiting sandbox after `words`; gives its exit code and output. */
async function endAfter(words: string) {
  using begun = beginWaiting(shapeOf(requestOf(''), base), base, powers);
  const { child } = begun;
  const said: string[] = [];
  const take = (bytes: Buffer) => said.push(bytes.toString());
  const streams = (['stdout', 'stderr'] as const).map((it) => begun[it].read(child[it], take));
  const ends = [...streams, child].map((it) => new Promise((resolve) => it?.once('close', resolve)));
  begun.line?.end(words);
  await Promise.all(ends);
  return { code: child.exitCode, said: said.join('') };
}

test('a waiting sandbox runs nothing if its host dies before it has sent the whole command', async () => {
  const ran = { code: 0, said: 'ran\n' };
  const nothing = { code: 1, said: '' };
  const words = '4\0:\0echo ran\0.\0';
  expect(await endAfter(words)).toEqual(ran);
  // Only the NUL of the last word may be missing.
  const cut = Array.from({ length: words.length - 2 }, (_, length) => words.slice(0, length));
  for (const words of [...cut, '3\0:\0echo ran\0', '4\0:\0echo ran\0,\0', '0\0', '1\0.\0'])
    expect(await endAfter(words), words).toEqual(nothing);
});
