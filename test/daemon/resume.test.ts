/** Connections that end while their sessions wait: nothing runs twice, no message is lost, and nobody else gets it. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Client, createClient, type ToolResult } from '../../src/client/client.ts';
import { cuttable } from '../support/cuttable.ts';
import { dataOf, type OpenDaemon, openDaemon, processesWith, until } from '../support/daemon.ts';
import { type Answer, RawPeer } from '../support/raw-peer.ts';

const ASK = 'tiers:\n  execute: { decision: ask }\napprovals: { headless: wait }\n';

let daemon: OpenDaemon;
let operator: Client;
beforeAll(async () => {
  daemon = await openDaemon({
    limits: { resumeMaxMs: 30_000, resumeBufferBytes: 64 * 1024 },
  });
  operator = await daemon.connect({ role: 'operator' });
});
afterAll(async () => {
  await operator[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});

interface Session {
  id: string;
  secret: string;
  resumeMs: number;
  resumed?: { notices: number; dropped: number };
}
const sessionOf = ({ result, error }: Answer): Session => {
  if (!result) throw new Error(error?.message);
  return result.session as Session;
};
const hello = (more: object = {}) => ({ workspace: daemon.workspace, ...more });
const resumeOf = ({ id: sessionId, secret }: Session) => ({ resume: { sessionId, secret } });
const commandOf = (command: string, options: object) => ({ tool: 'terminal_execute', input: { command }, options });
const sessions = async (of: Client) => ((await of.request('status', {})) as { sessions: number }).sessions;

const approvers = async () => ((await operator.request('status', {})) as { approvers: number }).approvers;

/** Opens a resumable session, begins a command in it, and drops the connection once it runs; resolves when the daemon has noticed. */
async function dropped(command: string, options: object, more: object = {}): Promise<Session> {
  const raw = new RawPeer(daemon.socket);
  const session = sessionOf(await raw.hello(hello({ resumeMs: 20_000, ...more })));
  // The number of listening approvers shows whether the daemon has noticed.
  if ('role' in more) await raw.request('events.subscribe', { topics: ['approvals'] });
  raw.send({ id: 'call', method: 'tools.call', params: commandOf(command, { progress: true, ...options }) });
  await raw.answer((it) => it.method === 'call.output');
  raw.socket.destroy();
  await raw.closed;
  if ('role' in more) await until(async () => (await approvers()) === 0);
  return session;
}

test('a call goes on without its connection, and what it tells meanwhile comes to the one that resumes, in order', async () => {
  const asOperator = { role: 'operator', token: daemon.token('operator') };
  const session = await dropped(
    'echo one; until [ -e go1 ]; do sleep 0.01; done; echo two; echo x >>once',
    {
      callId: 'a',
    },
    asOperator,
  );
  writeFileSync(join(daemon.workspace, 'go1'), '');
  await until(async () => {
    const { state } = (await operator.request('calls.get', { callId: 'a' })) as { state: { status: string } };
    return state.status === 'done';
  });
  const raw = new RawPeer(daemon.socket);
  const again = sessionOf(await raw.hello(hello({ resumeMs: 20_000, ...asOperator, ...resumeOf(session) })));
  expect(again).toMatchObject({ id: session.id, secret: session.secret, resumed: { dropped: 0 } });
  await raw.answer(
    (it) => it.method === 'call.update' && (it.params as { state: { status: string } }).state.status === 'done',
  );
  const output = raw.answers
    .filter((it) => it.method === 'call.output')
    .map((it) => it.params as { seq: number; data: Uint8Array });
  expect(output.map(({ seq, data }) => [seq, Buffer.from(data).toString()])).toEqual([[2, 'two\n']]);
  // A repeated request does not run it again.
  const { result } = await raw.request(
    'tools.call',
    commandOf('echo one; until [ -e go1 ]; do sleep 0.01; done; echo two; echo x >>once', { callId: 'a' }),
  );
  expect(result).toMatchObject({ success: true, data: { stdout: 'one\ntwo\n' } });
  const other = await raw.request('tools.call', commandOf('cat once', { callId: 'a' }));
  expect(other.result).toMatchObject({ success: false, error: { code: 'CONFLICT' } });
  const once = await raw.request('tools.call', commandOf('cat once', {}));
  expect(once.result).toMatchObject({ data: { stdout: 'x\n' } });
  raw.socket.destroy();
});

test('more output than is kept leaves out the oldest pieces, says so, and is read from the log', async () => {
  const asOperator = { role: 'operator', token: daemon.token('operator') };
  const session = await dropped(
    'echo one; until [ -e go2 ]; do sleep 0.01; done; for i in {1..400}; do printf "%01000d" $i; done',
    { callId: 'b' },
    asOperator,
  );
  writeFileSync(join(daemon.workspace, 'go2'), '');
  await until(
    async () => ((await operator.request('calls.get', { callId: 'b' })) as { result?: unknown }).result !== undefined,
  );
  const raw = new RawPeer(daemon.socket);
  const { resumed } = sessionOf(await raw.hello(hello({ ...asOperator, ...resumeOf(session) })));
  expect(resumed?.dropped).toBeGreaterThan(0);
  await raw.answer(
    (it) => it.method === 'call.update' && (it.params as { state: { status: string } }).state.status === 'done',
  );
  const pieces: Buffer[] = [];
  for (let afterSeq = 1; ; ) {
    const { result } = await raw.request('results.read', { callId: 'b', afterSeq });
    const page = result as unknown as { entries: { data: Uint8Array }[]; seq: number; eof: boolean };
    pieces.push(...page.entries.map((it) => Buffer.from(it.data)));
    afterSeq = page.seq;
    if (page.eof) break;
  }
  expect(Buffer.concat(pieces).length).toBe(400_000);
  raw.socket.destroy();
});

test('a second client takes the session over; the first one is told and disconnected', async () => {
  const first = new RawPeer(daemon.socket);
  const session = sessionOf(await first.hello(hello({ resumeMs: 20_000 })));
  first.send({
    id: 'held',
    method: 'tools.call',
    params: commandOf('until [ -e go3 ]; do sleep 0.01; done; echo here', { callId: 'c' }),
  });
  const second = new RawPeer(daemon.socket);
  sessionOf(await second.hello(hello({ resumeMs: 20_000, ...resumeOf(session) })));
  await first.closed;
  expect(first.answers.find((it) => it.method === 'session.closing')?.params).toMatchObject({
    reason: expect.stringMatching(/resumed/),
  });
  writeFileSync(join(daemon.workspace, 'go3'), '');
  const { result } = await second.request(
    'tools.call',
    commandOf('until [ -e go3 ]; do sleep 0.01; done; echo here', { callId: 'c' }),
  );
  expect(result).toMatchObject({ success: true, data: { stdout: 'here\n' } });
  second.socket.destroy();
});

describe('a session is nobody else’s', () => {
  test.each([
    ['its secret is wrong', (it: Session) => ({ resume: { sessionId: it.id, secret: 'x'.repeat(it.secret.length) } })],
    ['there is none of that id', (it: Session) => ({ resume: { sessionId: 'none', secret: it.secret } })],
    ['the principal is another', (it: Session) => ({ ...resumeOf(it), token: daemon.token('agent') })],
    [
      'its opener did not ask to come back',
      async () => {
        const raw = new RawPeer(daemon.socket);
        const session = sessionOf(await raw.hello(hello()));
        raw.socket.destroy();
        return resumeOf(session);
      },
    ],
  ])('a resume is refused in the same words if %s', async (_, claimOf) => {
    const session = await dropped('echo one; sleep 60', { callId: 'd' });
    const raw = new RawPeer(daemon.socket);
    const { error } = await raw.hello(hello(await claimOf(session)));
    expect(error).toMatchObject({
      code: -32004,
      message: expect.stringMatching(/^there is no such session to resume/),
    });
    // The failed attempt changed nothing.
    const right = new RawPeer(daemon.socket);
    expect(sessionOf(await right.hello(hello(resumeOf(session)))).id).toBe(session.id);
    await right.request('calls.cancel', { callId: 'd' });
    for (const it of [raw, right]) it.socket.destroy();
  });

  test('a session is resumed only with its own workspace, policy and role', async () => {
    const session = await dropped('echo one; sleep 60', { callId: 'e' });
    const raw = new RawPeer(daemon.socket);
    expect((await raw.hello(hello({ ...resumeOf(session), policy: 'read-only' }))).error).toMatchObject({
      code: -32602,
    });
    expect(
      (await raw.hello(hello({ ...resumeOf(session), role: 'operator', token: daemon.token('operator') }))).error,
    ).toMatchObject({ code: -32004 });
    sessionOf(await raw.hello(hello(resumeOf(session))));
    await raw.request('calls.cancel', { callId: 'e' });
    raw.socket.destroy();
  });
});

test('a client that does not come back in time loses its session and calls', async () => {
  // Named from the start: anything after the `echo` may not have run yet.
  const command = `exec -a marker-unresumed bash -c 'echo one; sleep 60; :'`;
  const session = await dropped(command, { callId: 'f' }, { resumeMs: 2000 });
  expect(processesWith('marker-unresumed').length).toBeGreaterThan(0);
  await until(() => processesWith('marker-unresumed').length === 0);
  const raw = new RawPeer(daemon.socket);
  expect((await raw.hello(hello(resumeOf(session)))).error).toMatchObject({ code: -32004 });
  raw.socket.destroy();
});

test('no principal has more than its share of waiting sessions: the one that waited longest goes', async () => {
  await using small = await openDaemon({ limits: { resumeMaxMs: 30_000, resumesPerPrincipalMax: 4 } });
  await using person = await small.connect({ role: 'operator' });
  const all: Session[] = [];
  for (let at = 0; at < 6; at += 1) {
    const raw = new RawPeer(small.socket);
    all.push(sessionOf(await raw.hello({ resumeMs: 1_000_000 })));
    raw.socket.destroy();
    await raw.closed;
  }
  expect(all[0]?.resumeMs).toBe(30_000);
  await until(async () => (await sessions(person)) === 1 + 4);
  const raw = new RawPeer(small.socket);
  expect((await raw.hello(resumeOf(all[0] as Session))).error).toMatchObject({ code: -32004 });
  expect(sessionOf(await raw.hello(resumeOf(all[5] as Session))).id).toBe(all[5]?.id);
  raw.socket.destroy();
});

test('results that nobody fetches hold up what waits, rather than push each other out', async () => {
  await using small = await openDaemon({ limits: { sessionCallsKept: 8, threadJobsMax: 1, hostThreadsMax: 1 } });
  writeFileSync(join(small.workspace, 'f'), 'text');
  const raw = new RawPeer(small.socket);
  const session = sessionOf(await raw.hello({ workspace: small.workspace, resumeMs: 20_000 }));
  const call = (at: number) => ({ tool: 'file_read', input: { path: 'f' }, options: { callId: `r${at}` } });
  await raw.request('tools.call', call(99));
  for (let at = 0; at < 40; at += 1) raw.send({ id: `r${at}`, method: 'tools.call', params: call(at) });
  await raw.request('status', {});
  raw.socket.destroy();
  await raw.closed;
  const results: unknown[] = [];
  for (let round = 0; round < 40 && results.length < 20; round += 1) {
    const again = new RawPeer(small.socket);
    sessionOf(await again.hello({ workspace: small.workspace, resumeMs: 20_000, ...resumeOf(session) }));
    const { result } = await again.request('tools.call', call(results.length));
    results.push((result as unknown as ToolResult).success);
    again.socket.destroy();
    await again.closed;
  }
  expect(results.length).toBe(20);
}, 30_000);

describe('the client', () => {
  test('goes on by itself: each call runs once, and its progress and notifications come', async () => {
    await using way = await cuttable(daemon);
    await using client = await createClient({ socket: way.socket, workspace: daemon.workspace, resumeMs: 10_000 });
    const { session } = await client.hello;
    const notices = new Set<number>();
    void (async () => {
      for await (const { method, params } of client.notifications(['calls']))
        if (method === 'call.update') notices.add(params.seq as number);
    })();
    const running = client.call(
      'terminal_execute',
      { command: 'echo x >>runs; echo one; until [ -e go4 ]; do sleep 0.01; done; echo two' },
      { progress: true },
    );
    const seen: string[] = [];
    for await (const it of running) {
      seen.push(it.kind === 'state' ? it.state.status : Buffer.from(it.data).toString());
      if (seen.at(-1) !== 'one\n') continue;
      way.cut();
      await client.request('status', {}); // The next connection answers it.
      writeFileSync(join(daemon.workspace, 'go4'), '');
    }
    expect(await dataOf(running)).toMatchObject({ stdout: 'one\ntwo\n' });
    expect(seen).toEqual(['queued', 'in-progress', 'one\n', 'two\n', 'done']);
    expect((await client.hello).session.id).toBe(session.id);
    expect(way.taken()).toBe(2);
    expect(await dataOf(client.call('terminal_execute', { command: 'cat runs; rm runs' }))).toMatchObject({
      stdout: 'x\n',
    });
    await until(() => notices.size === 6);
  });

  test('survives a hundred cuts with a hundred writes, each of them made once', async () => {
    await using way = await cuttable(daemon);
    await using client = await createClient({ socket: way.socket, workspace: daemon.workspace, resumeMs: 10_000 });
    const calls = Array.from({ length: 100 }, (_, at) =>
      client.call('terminal_execute', { command: `echo ${at} >>appended` }),
    );
    for (let at = 0; at < 100; at += 1) {
      await Promise.race(calls.slice(at));
      way.cut();
    }
    for (const it of calls) await dataOf(it);
    const { stdout } = await dataOf(client.call('terminal_execute', { command: 'sort -n appended' }));
    expect(stdout).toBe(Array.from({ length: 100 }, (_, at) => `${at}\n`).join(''));
  }, 60_000);

  test('without resumeMs ends its calls with its connection', async () => {
    await using way = await cuttable(daemon);
    await using client = await createClient({ socket: way.socket, workspace: daemon.workspace });
    const running = client.call(
      'terminal_execute',
      { command: 'echo one; exec -a marker-cut sleep 60' },
      { progress: true },
    );
    const rejected = expect(running).rejects.toThrow(/connection was closed/);
    await until(() => processesWith('marker-cut').length > 0);
    way.cut();
    await rejected;
    await until(() => processesWith('marker-cut').length === 0);
  });
});

test('a question that is asked while nobody is connected is there for who comes back', async () => {
  await using asking = await openDaemon({ policy: ASK });
  await using person = await asking.connect({ role: 'operator' });
  const raw = new RawPeer(asking.socket);
  const session = sessionOf(await raw.hello({ workspace: asking.workspace, resumeMs: 20_000 }));
  const params = {
    tool: 'terminal_execute',
    input: { command: 'echo rang >bell; cat bell' },
    options: { callId: 'q', progress: true },
  };
  raw.send({ id: 'call', method: 'tools.call', params });
  raw.socket.end();
  await raw.closed;
  interface Listed {
    approvals: { approvalId: string }[];
  }
  let listed: Listed = { approvals: [] };
  await until(async () => {
    listed = (await person.request('approvals.list', {})) as Listed;
    return listed.approvals.length === 1;
  });
  await person.request('approvals.resolve', { approvalId: listed.approvals[0]?.approvalId, decision: 'approve' });
  const again = new RawPeer(asking.socket);
  sessionOf(await again.hello({ workspace: asking.workspace, ...resumeOf(session) }));
  expect((await again.request('tools.call', params)).result).toMatchObject({
    success: true,
    data: { stdout: 'rang\n' },
  });
  const states = again.answers
    .filter((it) => it.method === 'call.update')
    .map((it) => (it.params as { state: { status: string } }).state.status);
  expect(states).toContain('blocked-on-user');
  again.socket.destroy();
});
