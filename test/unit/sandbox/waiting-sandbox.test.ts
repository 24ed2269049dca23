/** A sandbox that was begun before its command: it is that command's as any other would be, or nobody's. */
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import * as fc from 'fast-check';
import { afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { defaultLimits as limits } from '../../../src/limits.ts';
import { type Powers, systemPowers } from '../../../src/powers.ts';
import { runtime } from '../../../src/runtime.ts';
import { type CommandRequest, type CommandSetup, runCommand } from '../../../src/sandbox/command.ts';
import { begin, shapeOf } from '../../../src/sandbox/command-start.ts';
import { NO_MASKS } from '../../../src/sandbox/masks.ts';
import { createSandbox } from '../../../src/sandbox/sandbox.ts';
import { WaitingSandbox } from '../../../src/sandbox/waiting-sandbox.ts';
import { Watchdog } from '../../../src/sandbox/watchdog.ts';
import { until } from '../../support/daemon.ts';

/** Pids of all that was started since. */
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
  const at = { stateDir: folder, workspaces: [workspace], arch: process.arch, platform: process.platform };
  const sandbox = await createSandbox({ runtime, ...at, limits, version: 'test' }, system);
  const { filter, ...parts } = sandbox.commandSandbox(workspace);
  writeFileSync(join(folder, 'filter'), filter);
  const common = { filterFile: join(folder, 'filter'), environment: { PATH: '/usr/bin:/bin' }, limits };
  base = { ...parts, ...common, rlimits: { addressFactor: 16 }, watchdog: new Watchdog(limits, system) };
  return () => rmSync(folder, { recursive: true });
});
beforeEach(() => {
  started = [];
  waiting = new WaitingSandbox(base, powers);
});
afterEach(() => waiting[Symbol.dispose]());

const requestOf = (command: string, rest: Partial<CommandRequest> = {}): CommandRequest => ({
  ...{ command, cwd: workspace, env: {}, workspace, masks: NO_MASKS, bounds, signal: new AbortController().signal },
  ...rest,
});

/** Runs it in a sandbox that waited, or not; while it runs another one may be begun. */
function run(command: string, { isLate, ...rest }: Partial<CommandRequest> & { isLate: boolean }) {
  const before = started.length;
  const running = runCommand(requestOf(command, rest), { ...base, waiting }, powers);
  expect(started.length).toBe(isLate ? before : before + 1);
  return running;
}

/** In a sandbox that waited, whatever was before. */
function runLate(command: string, rest: Partial<CommandRequest> = {}) {
  waiting.take(shapeOf(requestOf(command, rest), base));
  waiting.prepare();
  return run(command, { ...rest, isLate: true });
}

test('what a command does in it is what it does in one of its own', async () => {
  const commands = [
    'echo $LINENO $# $0 $-\nnosuch\nf() { caller; }\nf',
    'echo a\nfi',
    'exit 7',
    'kill -TERM $$',
    'ulimit -f; echo ${RANDOM:+set}',
    'cat; ls -l /proc/self/fd | cut -d: -f2- | cut -d" " -f2',
  ];
  for (const command of commands) {
    const env = { MINE: "it's\n`two`", RINGFENCE_1: 'taken', RANDOM: '1' };
    const { durationMs: _, used: __, ...own } = await runCommand(requestOf(command, { env }), base, powers);
    const { durationMs: ___, used: ____, ...late } = await runLate(command, { env });
    expect(late, command).toEqual(own);
  }
}, 30_000);

test('its variables and arguments reach it as they are, and none of ours does', async () => {
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

test('what came to be hidden while it waited is hidden', async () => {
  await run('true', { isLate: false });
  writeFileSync(join(workspace, 'late-secret'), 'secret');
  const masks = { ...NO_MASKS, hidden: [{ path: 'late-secret', type: 'file' } as const] };
  expect(await run('cat late-secret', { masks, isLate: true })).toMatchObject({ stdout: '', exitCode: 1 });
});

test('a command that is given input, may use less, or is too long to come late gets one of its own', async () => {
  await run('true', { isLate: false });
  const less = { ...bounds, memoryMb: bounds.memoryMb - 1 };
  for (const [command, rest] of [
    ['cat', { stdin: 'given' }],
    ['printf given', { bounds: less }],
    [`printf given #${'x'.repeat(131_050)}`, {}],
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

test('one that is ended while it waits is not missed, and no second one waits', async () => {
  await run('true', { isLate: false });
  waiting.prepare();
  expect(started.length).toBe(2);
  process.kill(started[1] as number, 'SIGKILL');
  await until(() => {
    waiting.prepare();
    return started.length === 3;
  });
  expect(await run('echo here', { isLate: true })).toMatchObject({ stdout: 'here\n' });
});

/** Ends the pipe by which it is told after `options`; gives its exit code and output. */
async function endAfter(options: readonly string[]) {
  using begun = begin(shapeOf(requestOf('echo ran'), base), base, powers);
  const { child } = begun;
  const said: string[] = [];
  const take = (bytes: Buffer) => said.push(bytes.toString());
  const streams = (['stdout', 'stderr'] as const).map((it) => begun[it].read(child[it], take));
  (child.stdio[4] as Readable).resume();
  const ends = [...streams, child].map((it) => new Promise((resolve) => it?.once('close', resolve)));
  (child.stdio.at(-1) as Writable).end(options.map((it) => `${it}\0`).join(''));
  await Promise.all(ends);
  return { code: child.exitCode, said: said.join('') };
}

test('it runs nothing where whoever began it dies before, or in the middle of, telling it its command', async () => {
  expect(await endAfter([])).toEqual({ code: 0, said: '' });
  expect(await endAfter(['--clearenv', '--chdir', workspace, '--setenv', 'RINGFENCE_1', 'echo ran'])).toEqual({
    code: 0,
    said: '',
  });
});
