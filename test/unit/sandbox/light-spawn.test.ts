/** Processes without a fork: what is used of Node's own is the same, and nothing is left of them. */
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import type { Readable, Writable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { describe, expect, test } from 'vitest';
import { systemPowers } from '../../../src/powers.ts';
import { lightly } from '../../../src/sandbox/light-spawn.ts';
import { until } from '../../support/daemon.ts';

const HELD = 4;
const system = systemPowers();
const light = lightly({
  ...system,
  spawn() {
    throw new Error('it was not light');
  },
});
const STDIO = ['pipe', 'pipe', 'pipe', 'ignore', 'pipe'] as const;
const ENV = { PATH: '/usr/bin:/bin', WORD: "it's\nä " };
const start = (powers: typeof system, program: string, ...args: string[]) =>
  powers.spawn(program, args, { stdio: [...STDIO], env: ENV, cwd: '/', heldFd: HELD });
const sh = (powers: typeof system, script: string, ...args: string[]) =>
  start(powers, '/bin/bash', '--norc', '-c', script, 'sh', ...args);

async function outcomeOf(child: ReturnType<typeof start>, input: string) {
  const [out, err, held] = [child.stdout, child.stderr, child.stdio[HELD]].map((it) => text(it as Readable));
  child.stdin?.on('error', () => {}).end(input);
  const order: string[] = [];
  for (const event of ['exit', 'close']) child.once(event, (code, signal) => order.push(`${event} ${code} ${signal}`));
  await once(child, 'close');
  return {
    ...{ out: await out, err: await err, held: await held, order },
    ...{ exitCode: child.exitCode, signalCode: child.signalCode, killed: child.kill() },
  };
}

describe('it is as with Node', () => {
  test.each([
    ['output, errors, more, its end', 'echo out; echo err >&2; echo held >&4; exit 7'],
    ['input', 'cat; printf "%s|" "$@"; printf %s "$WORD"; env | sort'],
    ['its directory and descriptors', 'pwd; ls /proc/self/fd'],
    ['a signal', 'kill -KILL $$'],
    ['signals that this process ignores or blocks', 'grep -E "^Sig(Blk|Ign)" /proc/self/status'],
  ])('%s', async (_, script) => {
    const words = ['', "a'b", 'ä\n\\', '-x', '日本'];
    const wanted = await outcomeOf(sh(system, script, ...words), 'given\n');
    expect(await outcomeOf(sh(light, script, ...words), 'given\n')).toEqual(wanted);
  });

  test('a program that is not there is told by an event', async () => {
    const errorOf = async (powers: typeof system) => {
      const child = start(powers, '/no/such', 'x');
      const [error] = await once(child, 'error');
      const { code, syscall, message, errno } = error as NodeJS.ErrnoException;
      return { code, syscall, message, errno, pid: child.pid };
    };
    expect(await errorOf(light)).toEqual(await errorOf(system));
  });
});

test('it is killed, and what it held open after its end does not keep its end from being told', async () => {
  const child = sh(light, 'sleep 60 4>&- & echo $!; exec sleep 60');
  (child.stdio[HELD] as Readable).resume();
  const [chunk] = (await once(child.stdout as Readable, 'data')) as [Buffer];
  expect(child.kill('SIGTERM')).toBe(true);
  expect(await once(child, 'exit')).toEqual([null, 'SIGTERM']);
  expect(child.kill()).toBe(false);
  process.kill(Number(chunk.toString()), 'SIGKILL');
  await once(child, 'close');
});

test('neither descriptors nor processes are left of many', async () => {
  const fds = () => readdirSync('/proc/self/fd').length;
  const run = async () => {
    const child = sh(light, 'exit 3');
    for (const it of child.stdio.slice(1)) (it as Readable | null)?.resume();
    (child.stdin as Writable).end();
    await once(child, 'close');
  };
  await run();
  const before = fds();
  for (let i = 0; i < 20; i++) await Promise.all(Array.from({ length: 10 }, run));
  await until(() => fds() <= before);
  const children = readFileSync(`/proc/self/task/${process.pid}/children`, 'utf8').trim().split(' ');
  const zombies = children.filter((it) => it !== '' && readFileSync(`/proc/${it}/stat`, 'utf8').includes(') Z '));
  expect(zombies).toEqual([]);
});

test('one that gets a descriptor whose number is taken by another one of its own is started by Node', () => {
  const options = { stdio: ['ignore', 'pipe', 'pipe', 'ignore', 'pipe', 4] as const, env: ENV, cwd: '/', heldFd: HELD };
  expect(() => light.spawn('/bin/true', [], { ...options, stdio: [...options.stdio] })).toThrow('it was not light');
});
