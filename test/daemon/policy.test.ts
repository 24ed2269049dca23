/** One policy on effects, through a real daemon: what it denies by every way, how it changes, who is subject to which. */
import { chmodSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Client, createClient, type RemoteError } from '../../src/client/client.ts';
import { parsePolicy } from '../../src/policy/load.ts';
import type { AuditRecord } from '../../src/store/audit/log.ts';
import { dataOf, type OpenDaemon, openDaemon, until } from '../support/daemon.ts';
import { RawPeer } from '../support/raw-peer.ts';

const POLICY = `tiers: { execute: { decision: allow } }
rules:
  - id: no-vault
    match: { path: "vault/**" }
    decision: deny
    reason: The vault is closed.
rateLimits: [{ tool: file_list, calls: 3, perMs: 3600000, per: session }]
environment: [GREETING, "LC_*"]
`;
const TOKEN = `ghp_${'a1B2c3D4e5'.repeat(4).slice(0, 36)}`;

let daemon: OpenDaemon;
let agent: Client;
let operator: Client;
const at = (path: string) => join(daemon.workspace, path);
const run = (command: string, more: object = {}, from = agent) =>
  from.call('terminal_execute', { command, timeout: 10_000, ...more });
const policyFile = () => join(daemon.stateDir, 'policy.yaml');

beforeAll(async () => {
  daemon = await openDaemon({ policy: POLICY, config: { principals: { nightly: { policy: 'read-only' } } } });
  mkdirSync(at('vault'));
  writeFileSync(at('vault/gold'), 'GOLD');
  writeFileSync(at('.env'), 'KEY=GOLD');
  writeFileSync(at('plain.txt'), `the token is ${TOKEN}\n`);
  symlinkSync('vault/gold', at('innocent'));
  agent = await daemon.connect();
  operator = await daemon.connect({ role: 'operator' });
});
afterAll(async () => {
  await agent[Symbol.asyncDispose]();
  await operator[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});

describe('a denied file', () => {
  test.each([
    ['by its name', 'vault/gold', 'POLICY_DENIED'],
    ['by another spelling', './vault/../vault//gold', 'POLICY_DENIED'],
    ['by a link', 'innocent', 'POLICY_DENIED'],
    ['that holds secrets by its name', '.env', 'SENSITIVE_FILE'],
  ])('%s is refused to the file tool with its rule', async (_, path, code) => {
    expect(await agent.call('file_read', { path })).toMatchObject({
      error: { code, layer: 'policy', rule: code === 'POLICY_DENIED' ? 'no-vault' : 'no-secrets' },
    });
  });

  test.each(['cat vault/gold', 'tar c vault', 'head -c9 < vault/gold', 'git diff --no-index /dev/null vault/gold'])(
    'named in `%s` is refused before it runs, with the same rule',
    async (command) => {
      expect(await run(command)).toMatchObject({ error: { code: 'POLICY_DENIED', rule: 'no-vault' } });
    },
  );

  test.each([
    'v=va; w=ult; cat $v$w/gold',
    'cat v*/g*',
    'cat innocent',
    'cd v* && cat gold',
    "python3 -c \"print(open('va' + 'ult/gold').read())\"",
    'ln v*/g* here; cat here',
    'cp -r v* copy; cat copy/gold',
    'tar c v* | cat',
    'mv v* moved; cat moved/gold',
    'cat .e*',
    'exec 3<.e*; cat <&3; cat /proc/self/cwd/v*/gold',
  ])('the mounts keep a denied file from `%s`', async (command) => {
    const { stdout } = await dataOf(run(command));
    expect(stdout).not.toContain('GOLD');
    expect(readFileSync(at('vault/gold'), 'utf8')).toBe('GOLD');
  });
});

describe('who is under which policy', () => {
  test('a session can narrow its own by a built-in name, and is told so', async () => {
    const options = { socket: daemon.socket, workspace: daemon.workspace };
    await using narrow = await createClient({ ...options, policy: 'read-only' });
    expect(await narrow.call('file_write', { path: 'x', content: '' })).toMatchObject({
      error: { code: 'POLICY_DENIED' },
    });
    expect((await narrow.hello).session.toolset).not.toContain('file_write');
  });

  test('a principal of the config has its own token and policy', async () => {
    const token = readFileSync(join(daemon.stateDir, 'tokens/nightly.token'), 'utf8').trim();
    const options = { socket: daemon.socket, workspace: daemon.workspace, token };
    await using nightly = await createClient(options);
    expect(await nightly.call('file_write', { path: 'x', content: '' })).toMatchObject({
      error: { code: 'POLICY_DENIED' },
    });
    await expect(createClient({ ...options, role: 'operator' })).rejects.toMatchObject({ code: -32003 });
    const { entries } = (await operator.request('audit.query', { kind: 'session' })) as { entries: AuditRecord[] };
    expect(entries.map((it) => it.principal)).toContain('nightly');
  });

  test('a project narrows the sessions in it by a file of its own, and can not widen', async () => {
    mkdirSync(at('project/.ringfence'), { recursive: true });
    const file = at('project/.ringfence/policy.yaml');
    writeFileSync(file, 'tiers: { execute: { decision: deny } }\n');
    await using narrow = await daemon.connect({ workspace: at('project') });
    expect(await run('true', {}, narrow)).toMatchObject({ error: { code: 'POLICY_DENIED' } });
    expect(await run('true')).toMatchObject({ success: true });

    writeFileSync(file, 'rules: [{ id: mine, match: { tool: "*" }, decision: allow, reason: r }]\n');
    const refused = await daemon.connect({ workspace: at('project') }).catch((error: RemoteError) => error);
    expect(refused).toMatchObject({ message: expect.stringMatching(/policy\.yaml:1:\d+/) });
    // Existing sessions keep their policy until the file is valid again.
    for (const [text, success] of [
      [undefined, false],
      ['rules: []\n', true],
      ['tiers: { execute: { decision: deny } }\n', false],
    ] as const) {
      if (text !== undefined) writeFileSync(file, text);
      expect(await operator.request('policy.reload', {})).toMatchObject({ ok: true });
      expect(await run('true', {}, narrow)).toMatchObject({ success });
    }
    rmSync(at('project'), { recursive: true });
  });
});

describe('a session in a part of the workspace', () => {
  test.each(['.git', '.git/hooks', '.vscode', '.ringfence'])(
    'a session in %s, which other programs trust, is refused',
    async (folder) => {
      mkdirSync(at(folder), { recursive: true });
      const refused = await daemon.connect({ workspace: at(folder) }).catch((error: RemoteError) => error);
      expect(refused).toMatchObject({ code: -32004, message: expect.stringContaining('protected') });
      rmSync(at(folder), { recursive: true });
    },
  );

  test('a session in a part of the workspace is held to the same rules as one in the whole', async () => {
    await using inside = await daemon.connect({ workspace: at('vault') });
    expect(await inside.call('file_read', { path: 'gold' })).toMatchObject({
      error: { code: 'POLICY_DENIED', rule: 'no-vault' },
    });
    const ran = await run('g=gol; h=d; cat $g$h', {}, inside);
    expect(JSON.stringify(ran)).not.toContain('GOLD');
  });

  test('a session in a part is held to project files above it, whose paths count from where they are', async () => {
    mkdirSync(at('project/.ringfence'), { recursive: true });
    mkdirSync(at('project/part/closed'), { recursive: true });
    writeFileSync(at('project/part/closed/a.txt'), 'GOLD');
    const rule = 'rules: [{ id: closed, match: { path: "part/closed/**" }, decision: deny, reason: r }]\n';
    writeFileSync(at('project/.ringfence/policy.yaml'), rule);
    const denied = { error: { code: 'POLICY_DENIED', rule: 'repository:closed' } };
    await using project = await daemon.connect({ workspace: at('project') });
    await using part = await daemon.connect({ workspace: at('project/part') });
    expect(await project.call('file_read', { path: 'part/closed/a.txt' })).toMatchObject(denied);
    expect(await part.call('file_read', { path: 'closed/a.txt' })).toMatchObject(denied);
    expect(JSON.stringify(await run('c=closed; cat $c/a.tx*', {}, part))).not.toContain('GOLD');
    // It does not apply to the whole workspace.
    expect(await agent.call('file_read', { path: 'project/part/closed/a.txt' })).toMatchObject({ success: true });
    rmSync(at('project'), { recursive: true });
  });
});

test('explain tells what decides a call, strictest first, without making it', async () => {
  expect(await agent.request('policy.explain', { tool: 'file_read', input: { path: 'vault/gold' } })).toMatchObject({
    decision: 'deny',
    effects: [{ kind: 'read', target: 'vault/gold' }],
    rules: [{ id: 'no-vault', decision: 'deny', source: expect.stringMatching(/policy\.yaml:3$/) }, {}],
    suggestion: expect.any(String),
  });
});

test('a policy that is not in force yet is tried on the recorded calls, and its problems are told', async () => {
  await agent.call('file_read', { path: 'plain.txt' });
  await until(async () => {
    const { entries } = (await operator.request('audit.query', { text: 'plain.txt' })) as { entries: unknown[] };
    return entries.length > 0;
  });
  const denies = 'version: 1\nrules:\n  - { id: no-plain, match: { path: plain.txt }, decision: deny, reason: r }\n';
  const tried = (await operator.request('policy.backtest', { policy: denies, since: '1h' })) as {
    differences: object[];
  };
  expect(tried).toMatchObject({ calls: expect.any(Number), skipped: expect.any(Number), cut: false });
  expect(tried.differences).toContainEqual(
    expect.objectContaining({
      tool: 'file_read',
      effects: 'read plain.txt',
      old: 'allow',
      new: 'deny',
      rule: 'no-plain',
    }),
  );
  await expect(operator.request('policy.backtest', { policy: 'version: 1\nruls: []\n' })).rejects.toMatchObject({
    data: { code: 'INVALID_PARAMS', problems: [expect.stringMatching(/^policy\.yaml:2:1: .*ruls/)] },
  });
  await expect(agent.request('policy.backtest', { policy: denies })).rejects.toMatchObject({
    data: { code: 'FORBIDDEN' },
  });
});

test('variables that no policy names are not set by callers', async () => {
  expect(await run('echo $GREETING $LC_ALL', { env: { GREETING: 'hi', LC_ALL: 'C' } })).toMatchObject({
    success: true,
    data: { stdout: 'hi C\n' },
  });
  expect(await run('true', { env: { LD_PRELOAD: '/x' } })).toMatchObject({
    error: { code: 'POLICY_DENIED', rule: 'environment' },
  });
  const input = { command: 'true', env: { LD_PRELOAD: '/x' } };
  expect(await agent.request('policy.explain', { tool: 'terminal_execute', input })).toMatchObject({
    decision: 'deny',
    rules: [{ id: 'environment', reason: expect.stringContaining('LD_PRELOAD') }, {}],
  });
});

test('calls over a rate are refused with the time to wait, and others are not', async () => {
  await using client = await daemon.connect();
  for (let i = 0; i < 3; i++) expect(await client.call('file_list', {})).toMatchObject({ success: true });
  expect(await client.call('file_list', {})).toMatchObject({
    error: { code: 'RATE_LIMITED', recoverable: true, details: { retryAfterMs: expect.any(Number) } },
  });
  expect(await agent.call('file_list', {})).toMatchObject({ success: true });
});

test('a session has a rate of commands, writes and fetches by default that invalid calls use up, too', async () => {
  await using daily = await openDaemon({ ownRates: true });
  const rates = { terminal_execute: 120, file_write: 300, web_fetch: 60 };
  for (const [tool, calls] of Object.entries(rates)) {
    await using client = await daily.connect();
    const one = () => client.call(tool as string, {}) as Promise<{ error?: { code: string } }>;
    const codes = await Promise.all(Array.from({ length: calls + 1 }, async () => (await one()).error?.code));
    expect([tool, codes.filter((it) => it === 'INPUT_INVALID').length]).toEqual([tool, calls]);
    expect(await one()).toMatchObject({ error: { code: 'RATE_LIMITED', details: { limit: calls, perMs: 60_000 } } });
    await using other = await daily.connect();
    expect(await other.call(tool as string, {})).toMatchObject({ error: { code: 'INPUT_INVALID' } });
  }
});

test('secrets reach neither the caller, nor its output while it comes, nor the record', async () => {
  const read = await dataOf(agent.call('file_read', { path: 'plain.txt' }));
  expect(read.content).toBe('the token is [redacted:github-token]\n');
  const split = `printf ${TOKEN.slice(0, 20)}; sleep 0.05; printf '${TOKEN.slice(20)}\\n'`;
  const running = agent.call('terminal_execute', { command: split }, { progress: true });
  let streamed = '';
  for await (const it of running) if (it.kind === 'output') streamed += Buffer.from(it.data).toString();
  expect(streamed).toBe('[redacted:github-token]\n');
  expect(await running).toMatchObject({ data: { stdout: '[redacted:github-token]\n' } });
  await run(`true ${TOKEN}`);
  const { entries } = (await operator.request('audit.query', { limit: 1000 })) as { entries: AuditRecord[] };
  expect(JSON.stringify(entries)).not.toContain(TOKEN);
  expect(daemon.log()).not.toContain(TOKEN);
});

test('a secret in a name is neither answered, logged nor recorded', async () => {
  const raw = new RawPeer(daemon.socket);
  const { result } = await raw.hello({ client: { name: TOKEN, version: '1' } });
  const session = (result as { session: { id: string } }).session.id;
  const call = { tool: TOKEN, input: {}, options: { callId: `id-${TOKEN}` } };
  const answers = [
    await raw.request('policy.explain', { tool: TOKEN, input: {} }),
    await raw.request(TOKEN, {}),
    await raw.request('tools.call', { tool: 'file_read', input: { [TOKEN]: 1, path: 'x' } }),
    (await raw.request('tools.call', call)).result?.error,
  ];
  expect(answers).toMatchObject([{ error: {} }, { error: {} }, { result: { success: false } }, {}]);
  expect(JSON.stringify(answers)).not.toContain(TOKEN);
  raw.socket.destroy();
  const { entries } = (await operator.request('audit.query', { session })) as { entries: AuditRecord[] };
  expect(entries.length).toBeGreaterThan(2);
  expect(JSON.stringify(entries)).not.toContain(TOKEN);
  expect(daemon.log()).not.toContain(TOKEN);
});

describe('the record', () => {
  const entriesOf = async (filter: object) =>
    ((await operator.request('audit.query', { order: 'oldest', ...filter })) as { entries: AuditRecord[] }).entries;

  test('the record has the resources of what ran, and a short form of a refused write', async () => {
    const { callId } = await agent.call('terminal_execute', { command: 'true' });
    expect(await entriesOf({ callId })).toMatchObject([
      { kind: 'intent' },
      { kind: 'outcome', resources: { cpuMs: expect.any(Number), verdict: 'ok' } },
    ]);
    const denied = await agent.call('file_write' as string, { path: 'more', content: 'x'.repeat(16_000), nothing: 1 });
    const [refusal, ...others] = await entriesOf({ callId: denied.callId });
    expect([refusal?.kind, others]).toEqual(['refusal', []]);
    expect(JSON.stringify(refusal?.input).length).toBeLessThan(1300);
  });

  test('tells of attempts that were refused, and of the end of a session', async () => {
    const raw = new RawPeer(daemon.socket);
    await raw.hello({ token: 'nobody’s' });
    const { result } = await raw.hello();
    await raw.request('shutdown', {});
    raw.socket.destroy();
    const session = (result as { session: { id: string } }).session.id;
    await until(async () => (await entriesOf({ session })).length === 3);
    expect(await entriesOf({ session })).toMatchObject([
      { kind: 'session' },
      { kind: 'refusal', code: 'FORBIDDEN', detail: { method: 'shutdown' } },
      { kind: 'session', detail: { event: 'end' } },
    ]);
    const refusals = await entriesOf({ kind: 'refusal', limit: 1000 });
    expect(refusals.findLast((it) => it.code === 'UNAUTHENTICATED')).toMatchObject({
      principal: `uid:${process.getuid?.()}`,
      detail: { method: 'hello' },
    });
  });

  test('tells an intent with its redacted input, and what came of it', async () => {
    const { callId } = await agent.call('file_write', { path: 'recorded.txt', content: 'x' });
    const { entries } = (await operator.request('audit.query', { callId, order: 'oldest' })) as {
      entries: AuditRecord[];
    };
    expect(entries).toMatchObject([
      { kind: 'intent', tool: 'file_write', input: { path: 'recorded.txt', content: 'x' } },
      {
        kind: 'outcome',
        effects: [{ kind: 'write', target: 'recorded.txt' }],
        decision: 'allow',
        hash: expect.any(String),
      },
    ]);
    expect(await operator.request('audit.verify', {})).toMatchObject({ ok: true });
  });

  test('operators who listen hear of new entries of the record', async () => {
    await using watcher = await daemon.connect({ role: 'operator' });
    const end = new AbortController();
    let heard = 0;
    const listening = (async () => {
      for await (const { method } of watcher.notifications(['audit'], { signal: end.signal }))
        if (method === 'audit.appended') heard += 1;
    })();
    await until(async () => {
      await agent.call('file_read', { path: 'plain.txt' });
      return heard > 0;
    });
    end.abort();
    await listening;
  });
});

describe('a file that changes', () => {
  test('a changed policy file is in force without a restart, and a bad one never replaces a good one', async () => {
    const denied = { error: { code: 'POLICY_DENIED', rule: 'no-more' } };
    const rule = (examples: string) =>
      `${POLICY}  # more\n`.replace(
        'rateLimits',
        `  - { id: no-more, match: { write: "more/**" }, decision: deny, reason: r, examples: ${examples} }\nrateLimits`,
      );
    const write = () => agent.call('file_write', { path: 'more/x', content: '' });
    expect(await write()).toMatchObject({ success: true });
    writeFileSync(policyFile(), rule('{ match: ["echo x > more/x"] }'));
    await until(async () => !(await write()).success);
    expect(await write()).toMatchObject(denied);

    writeFileSync(policyFile(), rule('{ match: ["echo x > elsewhere"] }').replace('decision: allow', 'decision: deny'));
    const { ok, problems } = (await operator.request('policy.reload', {})) as { ok: boolean; problems: string[] };
    expect([ok, problems.join()]).toEqual([false, expect.stringMatching(/no-more: example `echo x > elsewhere`/)]);
    const tried = (await operator.request('audit.query', { kind: 'policy', limit: 1 })) as object;
    expect(tried).toMatchObject({ entries: [{ principal: 'operator', detail: { event: 'reload-failed', problems } }] });
    expect(await write()).toMatchObject(denied);
    expect(await run('true')).toMatchObject({ success: true });

    chmodSync(policyFile(), 0o666);
    writeFileSync(policyFile(), POLICY);
    expect(await operator.request('policy.reload', {})).toMatchObject({ ok: false });
    chmodSync(policyFile(), 0o600);
    expect(await operator.request('policy.reload', {})).toEqual({ ok: true, problems: [] });
    expect(await write()).toMatchObject({ success: true });
    const { entries } = (await operator.request('audit.query', { kind: 'policy' })) as { entries: AuditRecord[] };
    expect(entries.length).toBeGreaterThan(1);
  });
});

test('the policy of this file is one that the loader takes', () => {
  expect(parsePolicy(POLICY, 'p.yaml').rules.map((it) => it.id)).toContain('no-vault');
});

test('models are told of the extra tools where a policy names them, or all are asked for', async () => {
  const policy = 'tiers:\n  execute: { decision: allow }\ntools:\n  file_copy: { decision: allow }\n';
  await using daemon = await openDaemon({ policy });
  await using client = await daemon.connect();
  const names = async (params: object) =>
    ((await client.request('tools.list', params)) as { tools: { name: string }[] }).tools.map((it) => it.name);
  const told = await names({ format: 'mcp' });
  expect(told).toEqual(expect.arrayContaining(['file_copy', 'file_edit']));
  expect(told).not.toContain('file_search');
  for (const params of [{ format: 'mcp', tools: 'all' }, { format: 'mcp', category: 'search' }, {}])
    expect(await names(params)).toContain('file_search');
});
