/** Terminals through a real daemon: what their programs can observe, what callers see, and when they end. */
import { readdirSync, readlinkSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { findProgram } from '../../src/sandbox/find-program.ts';
import { dataOf, openDaemon, processesWith, startDaemon, type TestDaemon, until } from '../support/daemon.ts';

interface Answer {
  sessionId: string;
  ready: boolean;
  output: string;
  seq: number;
  missedBytes?: number;
  exited: boolean;
  endedBy?: string;
  exitCode?: number;
  screen?: { text: string; cols: number; rows: number; fullScreen: boolean; title?: string };
  needsInput?: { kind: string };
  terminals: { sessionId: string; exited: boolean }[];
}

/** A wait in ms that ends early for a reason; long enough for a slow machine. */
const WAIT_MS = 20_000;

type Result =
  | { success: true; data: Answer; metadata: { hostPid?: number } }
  | { success: false; error: { code: string; message: string }; metadata: { hostPid?: number } };
const use = (client: Client, input: object) =>
  client.call('terminal_interactive', input as never) as unknown as Promise<Result>;
const ask = (client: Client, input: object) => dataOf(use(client, { waitMs: WAIT_MS, ...input }));
const open = async (client: Client, input: object = {}) => (await ask(client, { action: 'open', ...input })).sessionId;
const type = (client: Client, sessionId: string, data: string) => ask(client, { action: 'write', sessionId, data });
const close = (client: Client, sessionId: string) => ask(client, { action: 'close', sessionId });

describe('one terminal', () => {
  let daemon: TestDaemon;
  let client: Client;
  beforeAll(async () => {
    daemon = await startDaemon({ limits: { terminalLogBytes: 64 * 1024 } });
    client = await daemon.connect();
  });
  afterAll(async () => {
    await client[Symbol.asyncDispose]();
    await daemon[Symbol.asyncDispose]();
  });

  test('a terminal has its size and job control, and Ctrl-C ends the program in it but not the shell', async () => {
    const id = await open(client, { cols: 101, rows: 31 });
    expect(
      (await type(client, id, 'stty size; test -t 0 && test -t 1 && echo both; set -o | grep monitor\r')).screen?.text,
    ).toMatch(/31 101\nboth\nmonitor +\ton|31 101\nboth\nmonitor +on/);
    await dataOf(use(client, { action: 'write', sessionId: id, data: 'sleep 300\r', waitMs: 0 }));
    await until(async () => (await ask(client, { action: 'read', sessionId: id, waitMs: 0 })).needsInput === undefined);
    expect(await type(client, id, '\u0003')).toMatchObject({ ready: true, needsInput: { kind: 'key' } });
    expect((await type(client, id, 'echo $?\r')).output).toMatch(/\r130\r\n/);
    await close(client, id);
  });

  test('tells its program of a new size by SIGWINCH', async () => {
    const onResize = '$SIG{WINCH} = sub { system("stty size"); exit 0 }; print "up\\n"; sleep 300';
    const id = await open(client, { command: `exec perl -e '$| = 1; ${onResize}'`, waitMs: 0 });
    await until(async () => (await ask(client, { action: 'read', sessionId: id, waitMs: 0 })).output.includes('up'));
    const answer = await ask(client, { action: 'resize', sessionId: id, cols: 77, rows: 11 });
    expect(answer.output).toContain('11 77');
    expect(answer).toMatchObject({ exited: true, exitCode: 0, screen: { cols: 77, rows: 11 } });
    await close(client, id);
  });

  test.each(['INT', 'TERM', 'HUP', 'QUIT'])('sends SIG%s to the program in the foreground', async (signal) => {
    const id = await open(client, {
      command: `trap 'echo got-${signal}; exit 5' ${signal}; while :; do read -r x; done`,
    });
    const answer = await ask(client, { action: 'signal', sessionId: id, signal });
    expect(answer.output).toContain(`got-${signal}`);
    expect(answer).toMatchObject({ exited: true, exitCode: 5 });
    await close(client, id);
  });

  test('TSTP gives the shell its prompt back, and KILL of the shell ends the terminal', async () => {
    const id = await open(client);
    expect(await type(client, id, 'cat\r')).toMatchObject({ needsInput: { kind: 'line' } });
    expect((await ask(client, { action: 'signal', sessionId: id, signal: 'TSTP' })).output).toMatch(/Stopped/);
    expect(await ask(client, { action: 'signal', sessionId: id, signal: 'KILL' })).toMatchObject({
      exited: true,
      exitCode: 137,
      signal: 'SIGKILL',
    });
    expect(await use(client, { action: 'write', sessionId: id, data: 'x' })).toMatchObject({
      error: { code: 'CONFLICT' },
    });
    await close(client, id);
  });

  test('tells by the kernel that its program waits: for a line, a password, a key; and says nothing while it works', async () => {
    const id = await open(client, { command: 'echo "Password: "; cat' });
    // A misleading prompt changes nothing.
    expect(await ask(client, { action: 'read', sessionId: id })).toMatchObject({ needsInput: { kind: 'line' } });
    await close(client, id);
    const shell = await open(client);
    expect(await type(client, shell, 'read -s x; echo "<"$x">"\r')).toMatchObject({ needsInput: { kind: 'password' } });
    expect((await type(client, shell, 'hush\r')).output).toContain('<hush>\r\n');
    expect(
      await ask(client, { action: 'write', sessionId: shell, data: 'while :; do :; done\r', waitMs: 100 }),
    ).not.toHaveProperty('needsInput');
    expect(await type(client, shell, '\u0003')).toMatchObject({ needsInput: { kind: 'key' } });
    expect((await type(client, shell, 'python3 -q\r')).screen?.text).toMatch(/>>>$/);
    expect((await type(client, shell, 'print(6 * 7)\r')).output).toContain('42');
    await close(client, shell);
  });

  test.skipIf(!findProgram('python3')).each([
    ['a read', 'import os; os.read(0, 1)', true],
    ['a read of /dev/tty', 'open("/dev/tty").read(1)', true],
    ['select', 'import select; select.select([0], [], [])', true],
    ['poll', 'import select; p = select.poll(); p.register(0, select.POLLIN); p.poll()', true],
    ['epoll', 'import select; p = select.epoll(); p.register(0, select.EPOLLIN); p.poll()', true],
    ['a thread that reads', 'import threading, os; threading.Thread(target=lambda: os.read(0, 1)).start()', true],
    ['a read of a pipe', 'import os; os.read(os.pipe()[0], 1)', false],
    ['a poll of something else', 'import select, os; p = select.poll(); p.register(os.pipe()[0]); p.poll()', false],
  ])('sees of %s whether it waits for the terminal', async (_, program, waits) => {
    const id = await open(client, { command: `echo; exec /usr/bin/python3 -c '${program}'`, waitMs: 0 });
    const read = () => ask(client, { action: 'read', sessionId: id, afterSeq: 1e9, waitMs: waits ? WAIT_MS : 500 });
    expect((await read()).needsInput !== undefined).toBe(waits);
    await close(client, id);
  });

  test('shows what a person would see of a full-screen program, without control sequences', async () => {
    const id = await open(client, { command: 'printf "one\\ntwo\\n" > seen.txt; exec less seen.txt' });
    const { screen, output } = await ask(client, { action: 'read', sessionId: id, afterSeq: 0, waitMs: 0 });
    expect(output).toContain('\u001b');
    expect(screen).toMatchObject({ fullScreen: true });
    expect(screen?.text).toMatch(/^one\ntwo\n/);
    expect(await type(client, id, 'q')).toMatchObject({ exited: true, exitCode: 0 });
    await close(client, id);
  });

  test('a read waits for output and no longer, goes on where the last one ended, and tells what is lost', async () => {
    const id = await open(client, {
      command: 'read -r x; echo first; read -r y; head -c 200000 /dev/zero | tr "\\0" z; read -r z',
    });
    const first = await type(client, id, '\r');
    expect(first.output).toContain('first');
    const reading = ask(client, { action: 'read', sessionId: id, afterSeq: first.seq });
    await dataOf(use(client, { action: 'write', sessionId: id, data: '\r', waitMs: 0 }));
    expect((await reading).output).not.toContain('first');
    await until(async () => (await ask(client, { action: 'read', sessionId: id, waitMs: 0 })).seq > 0);
    await ask(client, { action: 'write', sessionId: id, data: '' });
    const late = await ask(client, { action: 'read', sessionId: id, afterSeq: first.seq });
    expect(late.missedBytes).toBeGreaterThan(100_000);
    expect(late.output).toMatch(/^z+$/);
    await close(client, id);
  });

  test('output that nobody can draw costs the picture, and not the terminal', async () => {
    const id = await open(client);
    const hostile = [
      "printf 'x\\033[2147483647b\\033[2147483647L\\033[2147483647S\\033[2147483647I'",
      "(printf a; yes $'\\u0301' | head -c 30000000 | tr -d '\\n')",
    ];
    for (const line of hostile) await type(client, id, `${line}\r`);
    expect((await type(client, id, "echo go''es-on\r")).output).toContain('goes-on');
    await close(client, id);
  });

  test('the program of a terminal cannot put input into it, nor see our end of this or another terminal', async () => {
    const other = await open(client);
    const id = await open(client);
    const injecting =
      'perl -e \'for $r (0x5412, 0x541c) { my $b = "x"; print ioctl(STDIN, $r, $b) ? "INJECTED" : "refused $!", "\\n" }\'';
    const answer = await type(client, id, `${injecting}\r`);
    expect(answer.output).not.toMatch(/^INJECTED/m);
    expect(answer.output.match(/refused Operation not permitted/g)).toHaveLength(2);
    const fds = await type(client, id, 'ls -l /proc/1/fd /proc/$$/fd | grep -c ptmx; ls /dev/pts\r');
    expect(fds.output).toMatch(/\r0\r\nptmx\r\n/);
    await Promise.all([close(client, id), close(client, other)]);
  });

  test('the input that its parameters need is asked for by name', async () => {
    expect(await use(client, { action: 'resize', sessionId: 'x' })).toMatchObject({
      error: { code: 'INPUT_INVALID', details: { issues: [{ path: 'cols' }, { path: 'rows' }] } },
    });
  });
});

describe('whose they are, and when they end', () => {
  let daemon: TestDaemon;
  const start = async (more: object = {}) => {
    daemon = await startDaemon(more);
    return daemon;
  };
  const idle = (mark: string) => ({ action: 'open', command: `exec -a ${mark} sleep 300`, waitMs: 0 });

  test('another session neither sees nor reaches it, and no session has more than its share', async () => {
    await using _ = await start({ limits: { sessionTerminalsMax: 2, terminalsMax: 3 } });
    await using one = await daemon.connect();
    await using two = await daemon.connect();
    const { sessionId } = await ask(one, idle('marker-mine'));
    for (const action of ['read', 'close', 'write', 'signal', 'resize'])
      expect(
        await use(two, { action, sessionId, data: 'x', signal: 'KILL', cols: 80, rows: 24 }),
        action,
      ).toMatchObject({ error: { code: 'NOT_FOUND' } });
    expect((await ask(two, { action: 'list' })).terminals).toEqual([]);
    await ask(one, idle('marker-mine'));
    expect(await use(one, idle('marker-mine'))).toMatchObject({ error: { code: 'QUEUE_FULL' } });
    await ask(two, idle('marker-mine'));
    expect(await use(two, idle('marker-mine'))).toMatchObject({
      error: { code: 'QUEUE_FULL', message: /this daemon/ },
    });
    expect((await ask(one, { action: 'list' })).terminals).toHaveLength(2);
  });

  test('a terminal ends with close, with its session, when idle, and at its age, with all that runs in it', async () => {
    await using _ = await start();
    await using client = await daemon.connect();
    const gone = (mark: string) => until(() => processesWith(mark).length === 0);
    const { sessionId } = await ask(client, {
      action: 'open',
      command: 'setsid bash -c "exec -a marker-close sleep 300" & exec -a marker-close sleep 300',
      waitMs: 0,
    });
    await until(() => processesWith('marker-close').length > 1);
    await close(client, sessionId);
    expect(processesWith('marker-close')).toEqual([]);
    const other = await daemon.connect();
    await ask(other, idle('marker-session'));
    await until(() => processesWith('marker-session').length > 0);
    await other[Symbol.asyncDispose]();
    await gone('marker-session');
    for (const limit of ['terminalIdleMs', 'terminalLifeMs']) {
      await using short = await openDaemon({ limits: { [limit]: 700 } });
      await using its = await short.connect();
      const opened = await ask(its, idle(`marker-${limit}`));
      if (limit === 'terminalLifeMs')
        while ((await use(its, { action: 'read', sessionId: opened.sessionId })).success)
          await gone('never').catch(() => {});
      await gone(`marker-${limit}`);
      expect(await use(its, { action: 'read', sessionId: opened.sessionId })).toMatchObject({
        error: { code: 'NOT_FOUND' },
      });
    }
  });

  test('a terminal keeps its host from being reaped, and dies with it', async () => {
    await using _ = await start({ limits: { hostIdleMs: 1 } });
    await using client = await daemon.connect();
    const { sessionId } = await ask(client, idle('marker-pinned'));
    await until(() => processesWith('marker-pinned').length > 0);
    const result = await use(client, { action: 'list' });
    expect(result.success).toBe(true);
    process.kill(result.metadata.hostPid as number, 'SIGKILL');
    await until(() => processesWith('marker-pinned').length === 0);
    await until(async () => {
      const read = await use(client, { action: 'read', sessionId });
      return !read.success && read.error.code === 'NOT_FOUND';
    });
  });

  test.each(['SIGTERM', 'SIGKILL'] as const)(
    'no process of a terminal is left when the daemon ends by %s',
    async (signal) => {
      await using _ = await start();
      const client = await daemon.connect();
      const mark = `marker-daemon-${signal}`;
      await ask(client, {
        action: 'open',
        command: `setsid bash -c "trap '' HUP TERM; exec -a ${mark} sleep 300" & exec -a ${mark} sleep 300`,
        waitMs: 0,
      });
      await until(() => processesWith(mark).length > 1);
      daemon.process.kill(signal);
      await daemon.ended;
      await until(() => processesWith(mark).length === 0);
      await client[Symbol.asyncDispose]();
    },
  );

  test('a change of the policy ends it', async () => {
    await using _ = await start();
    await using client = await daemon.connect();
    await ask(client, idle('marker-policy'));
    await until(() => processesWith('marker-policy').length > 0);
    writeFileSync(
      join(daemon.stateDir, 'policy.yaml'),
      'rules:\n  - { id: x, match: { read: y }, decision: deny, reason: z }\n',
    );
    await until(() => processesWith('marker-policy').length === 0);
  });

  test('a file that comes to be hidden, or that is replaced under its mount, ends it before it is told what it saw', async () => {
    await using _ = await start();
    await using client = await daemon.connect();
    const secret = join(daemon.workspace, '.env');
    const id = await open(client);
    writeFileSync(secret, 'TOKEN=abc\n');
    let refused: unknown;
    await until(async () => {
      const result = await use(client, { action: 'write', sessionId: id, data: 'true\r', waitMs: 0 });
      refused = result.success ? undefined : result.error;
      return !result.success;
    }, 15_000);
    expect(refused).toMatchObject({ code: 'POLICY_DENIED', message: /\.env/ });

    const second = await open(client, { command: 'exec -a marker-mask sleep 300', waitMs: 100 });
    writeFileSync(`${secret}.new.example`, 'TOKEN=def\n');
    renameSync(`${secret}.new.example`, secret);
    await until(() => processesWith('marker-mask').length === 0);
    expect(await use(client, { action: 'read', sessionId: second })).toMatchObject({ success: false });
  });

  test('more processes than the policy allows end it, and it says so', async () => {
    await using _ = await start({ policy: 'tiers:\n  execute: { decision: allow, processes: 8 }\n' });
    await using client = await daemon.connect();
    const id = await open(client, { command: 'for i in 1 2 3 4 5 6 7 8 9; do sleep 300 & done; wait', waitMs: 0 });
    await until(async () => (await ask(client, { action: 'read', sessionId: id, waitMs: 0 })).exited);
    expect(await ask(client, { action: 'read', sessionId: id })).toMatchObject({ exited: true, endedBy: 'processes' });
  });
});

describe('what a policy says of it', () => {
  const RULES = `
tiers:
  execute: { decision: deny }
rules:
  - { id: history, match: { command: [git, log] }, decision: allow, reason: r }
  - { id: shells, match: { command: [bash] }, decision: allow, reason: r }
`;

  test('no rule on commands allows a terminal or what is typed into it, and reading is judged as reading', async () => {
    await using daemon = await openDaemon({ policy: RULES });
    await using client = await daemon.connect();
    for (const input of [
      { action: 'open' },
      { action: 'open', command: 'git log' },
      { action: 'write', sessionId: 'x', data: 'git log\r' },
    ])
      expect(await use(client, input)).toMatchObject({ error: { code: 'POLICY_DENIED' } });
    expect(await use(client, { action: 'read', sessionId: 'x' })).toMatchObject({ error: { code: 'NOT_FOUND' } });
    expect(await client.call('terminal_execute', { command: 'git log --oneline' })).toMatchObject({ success: true });
  });

  test('a denied command is denied when it is typed', async () => {
    const deny = 'rules:\n  - { id: no-rm, match: { command: [rm] }, decision: deny, reason: r }\n';
    await using daemon = await openDaemon({ policy: deny });
    await using client = await daemon.connect();
    const id = await open(client);
    expect(await use(client, { action: 'write', sessionId: id, data: 'rm -rf x\r' })).toMatchObject({
      error: { code: 'POLICY_DENIED', rule: 'no-rm' },
    });
    expect(await type(client, id, 'true\r')).toMatchObject({ ready: true });
  });
});

test('descriptors of terminals reach no other program of the host', async () => {
  await using daemon = await openDaemon();
  await using client = await daemon.connect();
  await open(client);
  const second = await open(client, { command: 'exec -a marker-fds sleep 300', waitMs: 0 });
  await until(() => processesWith('marker-fds').length > 0);
  const links = processesWith('marker-fds').flatMap((pid) =>
    readdirSync(`/proc/${pid}/fd`).map((fd) => readlinkSync(`/proc/${pid}/fd/${fd}`)),
  );
  expect(links).toContain('/dev/pts/1');
  expect(links.filter((it) => /ptmx|pts\/0$/.test(it))).toEqual([]);
  await close(client, second);
});

test('a terminal that a late or cancelled call opened ends with that call: nobody was told its name', async () => {
  await using daemon = await openDaemon();
  await using client = await daemon.connect();
  const input = { action: 'open', command: 'sleep 4321', waitMs: 10_000 } as const;
  // More often than the number of terminals that a session may have.
  for (let i = 0; i < 6; i++) {
    const late = await client.call('terminal_interactive', input, { timeoutMs: 1_000 });
    expect(late).toMatchObject({ success: false, error: { code: 'TIMEOUT' } });
  }
  const cancel = new AbortController();
  const call = client.call('terminal_interactive', input, { signal: cancel.signal });
  await until(() => processesWith('sleep 4321').length > 0);
  cancel.abort();
  expect(await call).toMatchObject({ success: false, error: { code: 'CANCELLED' } });
  await until(() => processesWith('sleep 4321').length === 0);
  expect(await ask(client, { action: 'list' })).toMatchObject({ terminals: [] });
}, 60_000);
