/** Commands in the background through a real daemon: their output, their ports, and when they end. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { findProgram } from '../../src/sandbox/find-program.ts';
import { dataOf, type OpenDaemon, openDaemon, processesWith, until } from '../support/daemon.ts';

const WAIT_MS = 20_000;

const startIn = async (client: Client, command: string, more: object = {}): Promise<string> => {
  const data = await dataOf(client.call('terminal_execute', { command, background: true, ...more }));
  expect(data).toMatchObject({ stdout: '', stderr: '' });
  expect(data).not.toHaveProperty('exitCode');
  return data.handle as string;
};
const outputOf = (client: Client, handle: string, more: object = {}) =>
  dataOf(client.call('terminal_output', { handle, ...more }));
const killOf = (client: Client, handle: string, more: object = {}) =>
  dataOf(client.call('terminal_kill', { handle, ...more }));

/** The whole output of a command, once it has ended. */
async function wholeOf(client: Client, handle: string): Promise<{ text: string; exitCode?: number }> {
  let text = '';
  let seq = 0;
  for (;;) {
    const it = await outputOf(client, handle, { afterSeq: seq, waitMs: WAIT_MS });
    text += it.output;
    const isDone = it.exited === true && it.seq === seq;
    seq = it.seq as number;
    if (isDone) return { text, ...(it.exitCode !== undefined && { exitCode: it.exitCode }) };
  }
}

describe('one command', () => {
  let daemon: OpenDaemon;
  let client: Client;
  beforeAll(async () => {
    daemon = await openDaemon({ limits: { terminalLogBytes: 64 * 1024 } });
    client = await daemon.connect();
  });
  afterAll(async () => {
    await client[Symbol.asyncDispose]();
    await daemon[Symbol.asyncDispose]();
  });

  test('gives a handle at once; both streams come in their order, with the exit code', async () => {
    const handle = await startIn(
      client,
      'read line; for i in 1 2 3; do echo "out $i"; echo "err $i" >&2; done; exit 7',
      {
        stdin: 'go\n',
      },
    );
    expect(await wholeOf(client, handle)).toEqual({
      text: 'out 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3\n',
      exitCode: 7,
    });
  });

  test('a background command has no terminal, and gets the directory, the variables and the workspace it asked for', async () => {
    const handle = await startIn(client, 'test -t 1 || echo none; echo "$X"; pwd; echo made > made.txt', {
      env: { X: 'set' },
    });
    expect((await wholeOf(client, handle)).text).toBe(`none\nset\n${daemon.workspace}\n`);
    expect(await dataOf(client.call('file_read', { path: 'made.txt' }))).toMatchObject({ content: 'made\n' });
  });

  test('a read waits for output that comes later, and goes on where the last one ended', async () => {
    const handle = await startIn(client, 'echo first; while [ ! -e go ]; do sleep 0.05; done; echo second; sleep 300');
    const first = await outputOf(client, handle, { waitMs: WAIT_MS });
    expect(first).toMatchObject({ output: 'first\n', exited: false });
    const reading = outputOf(client, handle, { afterSeq: first.seq, waitMs: WAIT_MS });
    writeFileSync(join(daemon.workspace, 'go'), '');
    expect(await reading).toMatchObject({ output: 'second\n', exited: false });
    expect(await killOf(client, handle)).toMatchObject({ ended: true });
  });

  test('old output is dropped, and the answer says how much', async () => {
    const handle = await startIn(client, 'head -c 300000 /dev/zero | tr "\\0" z');
    await until(async () => (await outputOf(client, handle, { afterSeq: 1e9 })).exited === true, WAIT_MS);
    const it = await outputOf(client, handle);
    expect(it.missedBytes).toBe(300_000 - 64 * 1024);
    expect(it.output).toMatch(/^z+$/);
  });

  test.skipIf(!findProgram('python3'))(
    'the ports on which it listens are told, in answers and in the list',
    async () => {
      const program = [
        'import socket, time',
        's = socket.socket(); s.bind(("127.0.0.1", 8123)); s.listen()',
        'print("up", flush=True); time.sleep(300)',
      ].join('\n');
      const handle = await startIn(client, 'exec python3 -', { stdin: program });
      expect(await outputOf(client, handle, { waitMs: WAIT_MS })).toMatchObject({ output: 'up\n', ports: [8123] });
      const { commands } = await dataOf(client.call('terminal_output', {}));
      expect(commands).toContainEqual(expect.objectContaining({ handle, exited: false, ports: [8123] }));
      await killOf(client, handle);
      expect(await outputOf(client, handle)).not.toHaveProperty('ports');
    },
  );

  test.each(['INT', 'TERM', 'HUP', 'USR1'])('SIG%s reaches the shell and the program that it runs', async (signal) => {
    const handle = await startIn(
      client,
      `trap 'echo shell; exit 5' ${signal}; perl -e '$SIG{${signal}} = sub { print "program\\n"; exit 0 }; $| = 1; print "up\\n"; sleep 300'; true`,
    );
    const { seq } = await outputOf(client, handle, { waitMs: WAIT_MS });
    await killOf(client, handle, { signal });
    const { text, exitCode } = await wholeOf(client, handle);
    expect(seq).toBe(3);
    expect(text.split('\n').toSorted()).toEqual(['', 'program', 'shell', 'up']);
    expect(exitCode).toBe(5);
  });

  test('a background command that survives a signal keeps running, and one that ended is a conflict', async () => {
    const handle = await startIn(client, "trap 'echo caught' USR2; echo up; while :; do sleep 0.05; done");
    const { seq } = await outputOf(client, handle, { waitMs: WAIT_MS });
    expect(await killOf(client, handle, { signal: 'USR2' })).toEqual({ ended: false });
    // bash tells of the sleep that the signal ended, too.
    await until(
      async () => (await outputOf(client, handle, { afterSeq: seq })).output?.endsWith('caught\n') === true,
      WAIT_MS,
    );
    expect(await killOf(client, handle)).toMatchObject({ ended: true });
    expect(await client.call('terminal_kill', { handle, signal: 'INT' })).toMatchObject({
      error: { code: 'CONFLICT' },
    });
    expect(await killOf(client, handle)).toMatchObject({ ended: true });
    expect((await outputOf(client, handle)).output).toMatch(/^up\n.*caught\n/s);
  });

  test("a background command can't reach the network where the policy lists no host", async () => {
    const handle = await startIn(client, 'exec 3<>/dev/tcp/192.0.2.1/80');
    const { text, exitCode } = await wholeOf(client, handle);
    expect(text).toMatch(/unreachable|not permitted/);
    expect(exitCode).toBe(1);
  });

  test('a background command that cannot start is an error of its call, and leaves no handle', async () => {
    const before = (await dataOf(client.call('terminal_output', {}))).commands?.length;
    expect(await client.call('terminal_execute', { command: 'true', cwd: '../..', background: true })).toMatchObject({
      error: { code: 'ACCESS_DENIED' },
    });
    expect((await dataOf(client.call('terminal_output', {}))).commands).toHaveLength(before as number);
  });
});

describe('the end of a background command', () => {
  const idle = (mark: string) => `exec -a ${mark} sleep 300`;
  const gone = (mark: string) => until(() => processesWith(mark).length === 0, WAIT_MS);
  const there = (mark: string) => until(() => processesWith(mark).length > 0, WAIT_MS);

  test('a background command ends with its session, when the policy changes, and with its host', async () => {
    await using daemon = await openDaemon();
    const leaving = await daemon.connect();
    await startIn(leaving, idle('marker-bg-session'));
    await there('marker-bg-session');
    await leaving[Symbol.asyncDispose]();
    await gone('marker-bg-session');

    await using client = await daemon.connect();
    const handle = await startIn(client, idle('marker-bg-host'));
    await there('marker-bg-host');
    const { metadata } = await client.call('terminal_output', { handle });
    process.kill(metadata.hostPid as number, 'SIGKILL');
    await gone('marker-bg-host');
    await until(async () => {
      const read = await client.call('terminal_output', { handle });
      return !read.success && read.error.code === 'NOT_FOUND';
    }, WAIT_MS);

    await startIn(client, idle('marker-bg-policy'));
    await there('marker-bg-policy');
    writeFileSync(
      join(daemon.stateDir, 'policy.yaml'),
      'rules:\n  - { id: x, match: { read: y }, decision: deny, reason: z }\n',
    );
    await gone('marker-bg-policy');
  });

  test('a background command ends at the longest life of a terminal, however often it is read', async () => {
    await using daemon = await openDaemon({ limits: { terminalLifeMs: 1500 } });
    await using client = await daemon.connect();
    const handle = await startIn(client, idle('marker-bg-life'));
    await until(async () => !(await client.call('terminal_output', { handle })).success, WAIT_MS);
    expect(await client.call('terminal_output', { handle })).toMatchObject({ error: { code: 'NOT_FOUND' } });
    await gone('marker-bg-life');
  });

  test('a background command that runs is not ended for being idle; one that has ended is forgotten then', async () => {
    await using daemon = await openDaemon({ limits: { terminalIdleMs: 700, hostIdleMs: 1 } });
    await using client = await daemon.connect();
    const runs = await startIn(client, idle('marker-bg-idle'));
    const ended = await startIn(client, 'true');
    await until(async () => {
      const { commands = [] } = await dataOf(client.call('terminal_output', {}));
      return commands.every((it) => it.handle !== ended);
    }, WAIT_MS);
    expect(await outputOf(client, runs)).toMatchObject({ exited: false });
    await killOf(client, runs);
  });

  test('commands that have ended make room for new ones; running ones do not', async () => {
    await using daemon = await openDaemon({ limits: { sessionTerminalsMax: 2 } });
    await using client = await daemon.connect();
    const first = await startIn(client, 'echo one');
    await wholeOf(client, first);
    await startIn(client, idle('marker-bg-room'));
    await startIn(client, idle('marker-bg-room'));
    expect(await client.call('terminal_output', { handle: first })).toMatchObject({ error: { code: 'NOT_FOUND' } });
    expect(await client.call('terminal_execute', { command: 'true', background: true })).toMatchObject({
      error: { code: 'QUEUE_FULL' },
    });
    // Terminals count with them.
    expect(await client.call('terminal_interactive', { action: 'open' })).toMatchObject({
      error: { code: 'QUEUE_FULL' },
    });
    expect(await dataOf(client.call('terminal_execute', { command: 'echo fine' }))).toMatchObject({ stdout: 'fine\n' });
  });
});
