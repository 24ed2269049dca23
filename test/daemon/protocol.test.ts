/** The wire contract, request by request, against a real daemon. */
import { mkdirSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Client, createClient, type RemoteError } from '../../src/client/client.ts';
import { dataOf, type OpenDaemon, openDaemon, startDaemon, until } from '../support/daemon.ts';
import { RawPeer } from '../support/raw-peer.ts';

let daemon: OpenDaemon;
let client: Client;
beforeAll(async () => {
  daemon = await openDaemon();
  writeFileSync(join(daemon.workspace, 'a.txt'), 'one\ntwo\nthree\n');
  client = await daemon.connect();
});
afterAll(async () => {
  await client[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});
const refusal = (method: string, params: unknown) =>
  client.request(method, params).then(
    () => undefined,
    (error: RemoteError) => error.code,
  );

describe('hello', () => {
  const raw = async (params: object) => {
    const peer = new RawPeer(daemon.socket);
    const answer = await peer.hello(params);
    peer.socket.destroy();
    return answer;
  };

  test('says who serves, what holds, and what there is', async () => {
    expect(await client.hello).toMatchObject({
      protocol: 1,
      server: { name: 'ringfence' },
      session: {
        role: 'agent',
        workspace: daemon.workspace,
        toolset: expect.arrayContaining([
          'file_list',
          'file_read',
          'file_write',
          'git_status',
          'terminal_execute',
          'todo_read',
        ]),
      },
      confinement: {
        backend: 'bubblewrap',
        ...(daemon.confinement.cgroup === 'none'
          ? { level: 'B', cgroup: 'none', missing: expect.arrayContaining(['cgroup']) }
          : { level: 'A', cgroup: daemon.confinement.cgroup, missing: expect.not.arrayContaining(['cgroup']) }),
      },
    });
  });

  test('comes first: anything else before it is NOT_READY', async () => {
    const peer = new RawPeer(daemon.socket);
    expect(await peer.request('status', {})).toMatchObject({ error: { code: -32002, data: { code: 'NOT_READY' } } });
    peer.socket.destroy();
  });

  test.each([
    ['another protocol', { protocol: 2 }, -32005],
    ['another protocol, and what only that has', { protocol: 2, more: true }, -32005],
    ['a workspace that is not one of the daemon', { workspace: '/usr' }, -32004],
    ['a workspace that is not there', { workspace: '/no/such/place' }, -32004],
    ['a relative workspace', { workspace: 'ws' }, -32602],
    ['a wrong token', { token: 'wrong' }, -32003],
    ['the role operator without a token', { role: 'operator' }, -32003],
    ['an unknown policy', { policy: 'lax' }, -32602],
    ['a key that is not in the protocol', { colour: 'red' }, -32602],
    ['a resumption of a session that there is not', { resume: { sessionId: 'none', secret: 'none' } }, -32004],
    ['a time to resume below 0', { resumeMs: -1 }, -32602],
  ])('a hello with %s is refused', async (_, params, code) => {
    expect((await raw(params)).error?.code).toBe(code);
  });

  test('names the command that would make a refused workspace one', async () => {
    expect((await raw({ workspace: '/usr' })).error?.message).toMatch(/ringfence workspace add \/usr/);
  });

  test('a hello for a folder below a workspace narrows the session to it', async () => {
    await dataOf(client.call('file_write', { path: 'below/b.txt', content: 'b' }));
    await using narrow = await daemon.connect({ workspace: join(daemon.workspace, 'below') });
    expect(await narrow.call('file_read', { path: 'b.txt' })).toMatchObject({ success: true });
    expect(await narrow.call('file_read', { path: '../a.txt' })).toMatchObject({ error: { code: 'ACCESS_DENIED' } });
  });
});

describe('requests', () => {
  test('a request of an unknown method is -32601', async () => {
    expect(await refusal('no.such', {})).toBe(-32601);
    expect(await refusal('constructor', {})).toBe(-32601);
  });

  test('a request with wrong params is -32602 and names each', async () => {
    await expect(client.request('tools.call', { tool: 7, extra: 1 })).rejects.toMatchObject({
      code: -32602,
      data: { code: 'INVALID_PARAMS', issues: expect.arrayContaining([expect.objectContaining({ path: 'tool' })]) },
    });
    expect(await refusal('tools.call', { tool: 'file_list', input: {}, options: { detached: 1 } })).toBe(-32602);
  });

  test('a request that uses an id twice at once is -32600', async () => {
    const peer = new RawPeer(daemon.socket);
    await peer.hello();
    const call = {
      id: 'same',
      method: 'tools.call',
      params: { tool: 'terminal_execute', input: { command: 'sleep 0.3' } },
    };
    peer.send(call);
    peer.send(call);
    expect((await peer.answer((it) => it.id === 'same')).error?.code).toBe(-32600);
    peer.socket.destroy();
  });

  test('requests whose method is no string are answered under their id', async () => {
    const peer = new RawPeer(daemon.socket);
    await peer.hello();
    for (const message of [{ id: 'a', method: 5 }, { id: 7 }]) {
      peer.send(message);
      expect((await peer.answer((it) => it.id === message.id)).error?.code).toBe(-32600);
    }
    peer.socket.destroy();
  });

  test('go on after an error that nobody asked for: the connection is neither ended nor forgotten', async () => {
    const peer = new RawPeer(daemon.socket);
    await peer.hello();
    peer.send({ id: null, error: { code: 1, message: 'x' } });
    expect((await peer.answer((it) => it.id === null)).error?.code).toBe(-32600);
    expect(await peer.request('policy.get', {})).toHaveProperty('result');
    peer.socket.destroy();
  });

  test('a request to explain a call with a wrong input is refused with each problem', async () => {
    const asked = client.request('policy.explain', { tool: 'file_read', input: { x: 1 } });
    await expect(asked).rejects.toMatchObject({
      message: expect.not.stringContaining('\n'),
      data: { issues: [{ path: 'path' }, { path: 'x' }] },
    });
  });

  test("an operator's request is forbidden to an agent", async () => {
    expect(await refusal('shutdown', {})).toBe(-32004);
    expect(await refusal('events.subscribe', { topics: ['audit'] })).toBe(-32004);
  });
});

describe('a call', () => {
  test('a call has a result with the metadata of the contract', async () => {
    const result = await client.call('read' as string, { filePath: 'a.txt', startLine: 2, maxLines: 1 });
    expect(result).toMatchObject({
      tool: 'file_read',
      success: true,
      data: { content: 'two\n', lines: 3, truncated: true },
      metadata: {
        tier: 'read_only',
        cached: false,
        retriesAttempted: 0,
        undo: 'none',
        resources: { verdict: 'ok', cpuMs: expect.any(Number) },
      },
    });
    expect(new Date(result.metadata.timestamp).toISOString()).toBe(result.metadata.timestamp);
  });

  test('a call with an unknown tool or parameter names the nearest', async () => {
    expect(await client.call('file_raed' as string, {})).toMatchObject({
      error: { code: 'TOOL_NOT_FOUND', suggestion: 'Did you mean `file_read`?' },
    });
    expect(await client.call('file_read' as string, { pth: 'a', startLine: 'x' })).toMatchObject({
      error: {
        code: 'INPUT_INVALID',
        details: {
          issues: expect.arrayContaining([
            { path: 'pth', message: 'no such parameter; did you mean path?' },
            expect.objectContaining({ path: 'startLine' }),
          ]),
        },
      },
    });
  });

  test('a call with a forbidden header says why', async () => {
    const asked = { url: 'https://example.org/', headers: { Host: 'other.example' } };
    expect(await client.call('http_request', asked)).toMatchObject({
      error: { details: { issues: [{ path: 'headers.Host', message: 'is set by Ringfence' }] } },
    });
  });

  test('a call with a used id does not run again: the same call gets the first result, another one CONFLICT', async () => {
    const input = { command: 'echo x >> once; wc -l < once' };
    const first = await client.call('terminal_execute', input, { callId: 'once' });
    expect(first).toMatchObject({ success: true });
    expect(await client.call('terminal_execute', input, { callId: 'once' })).toEqual(first);
    expect(await client.call('terminal_execute', { command: 'true' }, { callId: 'once' })).toMatchObject({
      error: { code: 'CONFLICT' },
    });
    expect((await dataOf(client.call('file_read', { path: 'once' }))).lines).toBe(1);
  });

  test('a call that writes lists the files that it changed', async () => {
    const result = await client.call('file_write', { path: 'new.txt', content: 'x' });
    expect(result.metadata.filesChanged).toEqual([{ path: 'new.txt', kind: 'create' }]);
  });

  test('a call that would overwrite a change that its caller has not seen is CONFLICT', async () => {
    const { hash } = await dataOf(client.call('file_read', { path: 'a.txt' }));
    await dataOf(client.call('file_write', { path: 'b.txt', content: 'mine' }));
    expect(await client.call('file_write', { path: 'b.txt', content: 'x', ifHash: hash })).toMatchObject({
      error: { code: 'CONFLICT' },
    });
    const now = await dataOf(client.call('file_read', { path: 'b.txt' }));
    expect(await client.call('file_write', { path: 'b.txt', content: 'x', ifHash: now.hash })).toMatchObject({
      success: true,
    });
  });

  test('a call can be looked up, listed by page and status, and not by another session', async () => {
    const { callId } = await client.call('file_list', {});
    expect(await client.record(callId)).toMatchObject({
      callId,
      tool: 'file_list',
      state: { status: 'done' },
      result: { success: true },
    });
    const page = (await client.request('calls.list', { limit: 1, status: 'done' })) as {
      calls: unknown[];
      cursor: string;
    };
    expect(page.calls).toHaveLength(1);
    expect(await client.request('calls.list', { limit: 1, cursor: page.cursor })).not.toEqual(page);
    await using other = await daemon.connect();
    await expect(other.record(callId)).rejects.toMatchObject({ code: -32602 });
    expect(await other.request('calls.cancel', { callId })).toEqual({ cancelled: false });
  });
});

test('a directory with more entries than a listing holds is cut, in the order of names, and says so', async () => {
  const many = join(daemon.workspace, 'many');
  mkdirSync(many);
  for (let i = 0; i < 6000; i++) writeFileSync(join(many, `${i}`.padStart(4, '0')), '');
  const data = await dataOf(client.call('file_list', { path: 'many' }));
  expect(data).toMatchObject({ count: 5000, truncated: true });
  expect(data.entries.at(-1)?.path).toBe('many/4999');
});

test('a subscriber is told of its own calls, numbered, and catches up on those before', async () => {
  const { seq } = (await client.request('events.subscribe', { topics: ['calls'] })) as { seq: number };
  const peer = new RawPeer(daemon.socket);
  await peer.hello();
  await peer.request('events.subscribe', { topics: ['calls'] });
  const answer = await peer.request('tools.call', { tool: 'file_list', input: {} });
  const callId = answer.result?.callId;
  const of = (them: RawPeer['answers']) =>
    them
      .filter((it) => it.method === 'call.update')
      .map((it) => (it.params as { state: { status: string } }).state.status);
  expect(of(peer.answers)).toEqual(['queued', 'in-progress', 'done']);
  await peer.request('events.subscribe', { topics: ['calls'], afterSeq: seq });
  await until(() => of(peer.answers).length === 6);
  expect(
    peer.answers.filter((it) => it.method).every((it) => (it.params as { callId: string }).callId === callId),
  ).toBe(true);
  peer.socket.destroy();
});

test('a subscriber that asks for progress gets each update once', async () => {
  const peer = new RawPeer(daemon.socket);
  await peer.hello();
  await peer.request('events.subscribe', { topics: ['calls'] });
  await peer.request('tools.call', { tool: 'file_list', input: {}, options: { progress: true, cache: false } });
  const seqs = peer.answers.filter((it) => it.method === 'call.update').map((it) => (it.params as { seq: number }).seq);
  expect(seqs).toEqual([...new Set(seqs)]);
  expect(seqs).toHaveLength(3);
  peer.socket.destroy();
});

test('a refusal names the file that it is about, and the record says what ended a call', async () => {
  const refused = await client.call('file_copy', { sourcePath: 'a.txt', destPath: '.env' });
  expect(refused).toMatchObject({ error: { code: 'SENSITIVE_FILE', message: expect.stringContaining('on `.env`') } });
  const ended = await client.call('terminal_execute', { command: 'sleep 9' }, { timeoutMs: 1500 });
  expect(ended.metadata.resources.verdict).toBe('timeout');
  await using operator = await daemon.connect({ role: 'operator' });
  const outcomes = async () => {
    const asked = { callId: ended.callId, kind: 'outcome' };
    return ((await operator.request('audit.query', asked)) as { entries: object[] }).entries;
  };
  await until(async () => (await outcomes()).length > 0);
  expect(await outcomes()).toMatchObject([{ code: 'TIMEOUT', resources: { verdict: 'timeout' } }]);
});

test('status tells of hosts, calls and listeners', async () => {
  await dataOf(client.call('file_list', {}));
  expect(await client.request('status', {})).toMatchObject({
    uptimeMs: expect.any(Number),
    calls: { queued: 0, running: 0, blocked: 0 },
    hosts: expect.arrayContaining([
      expect.objectContaining({
        tier: 'read_only',
        workspace: daemon.workspace,
        threads: 2,
        busy: 0,
        rssBytes: expect.any(Number),
      }),
    ]),
    listeners: [daemon.socket, daemon.socket.replace('.sock', '.mcp.sock')],
  });
});

test('a new subscriber gets the notice of a call before its result', async () => {
  for (let i = 0; i < 30; i++) {
    await using fresh = await daemon.connect();
    const heard: string[] = [];
    fresh.onUpdate((_, { status }) => heard.push(status));
    await fresh.request('events.subscribe', { topics: ['calls'] });
    await fresh.call('file_list', { path: '.' });
    expect(heard.at(-1)).toBe('done');
  }
});

test('the socket is its owner’s alone', () => {
  expect(statSync(daemon.socket).mode & 0o777).toBe(0o600);
  expect(statSync(dirname(daemon.socket)).mode & 0o777).toBe(0o700);
});

test('64 connections with 100 calls each at once are all answered, in bounded memory', async () => {
  await using operator = await daemon.connect({ role: 'operator' });
  const rss = async () => ((await operator.request('status', {})) as { rssBytes: number }).rssBytes / 1024 / 1024;
  const before = await rss();
  const clients = await Promise.all(Array.from({ length: 64 }, () => daemon.connect()));
  const results = await Promise.all(
    clients.flatMap((it) => Array.from({ length: 100 }, () => it.call('file_read', { path: 'a.txt' }))),
  );
  expect(results.filter((it) => it.success)).toHaveLength(6400);
  expect((await rss()) - before).toBeLessThan(200);
  await Promise.all(clients.map((it) => it[Symbol.asyncDispose]()));
}, 60_000);

describe('the end', () => {
  test('a shutdown lets a call end that is done in time, refuses new ones, and leaves nothing', async () => {
    await using ending = await startDaemon();
    await using agent = await ending.connect();
    await using operator = await ending.connect({ role: 'operator' });
    const running = agent.call('terminal_execute', { command: 'sleep 0.4; echo done' });
    await until(
      async () => ((await operator.request('status', {})) as { calls: { running: number } }).calls.running === 1,
    );
    await operator.request('shutdown', { graceMs: 5000 });
    expect(await agent.call('file_list', {})).toMatchObject({ error: { code: 'SHUTTING_DOWN' } });
    expect(await running).toMatchObject({ success: true, data: { stdout: 'done\n' } });
    expect(await ending.ended).toBe(0);
    await expect(createClient({ socket: ending.socket })).rejects.toMatchObject({ code: 'ENOENT' });
  });

  test('a signal ends the calls that are not done within the grace', async () => {
    await using ending = await startDaemon({ limits: { shutdownGraceMs: 100 } });
    await using agent = await ending.connect();
    const running = agent.call('terminal_execute', { command: 'sleep 60' });
    await until(
      async () => ((await agent.request('status', {})) as { calls: { running: number } }).calls.running === 1,
    );
    ending.process.kill('SIGTERM');
    expect(await running).toMatchObject({ error: { code: 'SHUTTING_DOWN' } });
    expect(await ending.ended).toBe(0);
  });
});

describe('the policy', () => {
  test('a policy that denies a tier keeps its tools out of the list, and says which rule refused a call', async () => {
    await using strict = await openDaemon({ policy: 'tiers:\n  write: { decision: deny }\n' });
    await using agent = await strict.connect();
    const tools = await agent.tools();
    const told = tools.map((it) => [it.name, it.decision]);
    expect(told).toEqual(
      expect.arrayContaining([
        ['file_list', 'allow'],
        ['file_read', 'allow'],
        ['terminal_execute', 'allow'],
        ['web_fetch', 'ask'],
      ]),
    );
    expect(tools.filter((it) => it.tier === 'write')).toEqual([]);
    expect(await agent.call('file_write', { path: 'x', content: '' })).toMatchObject({
      error: {
        code: 'POLICY_DENIED',
        rule: 'tiers.write.decision',
        layer: 'policy',
        details: { source: expect.stringMatching(/policy\.yaml:2$/) },
      },
    });
  });

  test('a policy that is not wholly understood keeps the daemon from starting', async () => {
    await expect(openDaemon({ policy: 'version: 1\nnetwork: {}\n' })).rejects.toThrow(
      /policy\.yaml:2:\d+: .*network.* is not supported yet/,
    );
  });
});
