/** Commands and the network, with a real daemon: listed hosts can be reached by every client, other hosts not at all. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { defaultLimits } from '../../src/base/limits.ts';
import type { Client } from '../../src/client/client.ts';
import { dataOf, isBelow, processesWith, startDaemon, type TestDaemon, until } from '../support/daemon.ts';

let server: Server;
let port: number;
let daemon: TestDaemon;
let client: Client;
const seen: string[] = [];

beforeAll(async () => {
  server = createServer((incoming, response) => {
    seen.push(`${incoming.url}`);
    response.end('served\n');
  });
  await new Promise<void>((done) => void server.listen(0, '127.0.0.1', done));
  port = (server.address() as AddressInfo).port;
  daemon = await startDaemon({ policy: policyOf(`127.0.0.1:${port}`, 'listed.test') });
  client = await daemon.connect();
});
afterAll(async () => {
  await client[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
  server.close();
});

test('a session whose HTTP requests are never answered holds up no other', async () => {
  let waiting = 0;
  const slow = createServer((incoming, response) => {
    if (incoming.url === '/never') waiting += 1;
    else response.end('served');
  });
  await new Promise<void>((done) => void slow.listen(0, '127.0.0.1', done));
  const at = `http://127.0.0.1:${(slow.address() as AddressInfo).port}`;
  const network = `network: { allow: ["${at.slice('http://'.length)}"] }`;
  await using own = await startDaemon({ policy: `tiers:\n  external_api: { decision: allow, ${network} }\n` });
  await using hog = await own.connect();
  await using other = await own.connect();
  const { sessionHttpRequestsMax } = defaultLimits;
  const ending = new AbortController();
  const hanging = Array.from({ length: 3 * sessionHttpRequestsMax }, () =>
    hog.call('http_request', { url: `${at}/never` }, { signal: ending.signal }),
  );
  await until(() => waiting >= sessionHttpRequestsMax);
  expect(await other.call('http_request', { url: at })).toMatchObject({ success: true, data: { body: 'served' } });
  expect(waiting).toBe(sessionHttpRequestsMax);
  ending.abort();
  await Promise.all(hanging);
  slow.closeAllConnections();
  slow.close();
});

const policyOf = (...hosts: string[]) => `tiers:\n  execute: { network: { allow: ${JSON.stringify(hosts)} } }\n`;
/** NO_PROXY excludes the sandbox's own loopback; these tests mean the machine's. */
const env = { NO_PROXY: '', no_proxy: '' };
const run = (command: string, options: object = {}, by = client) =>
  by.call('terminal_execute', { command, env, ...options });
const url = () => `http://127.0.0.1:${port}`;

/** Processes of the proxy of one daemon, launchers included. */
const proxiesOf = ({ pid }: TestDaemon): number[] => processesWith('workers/egress').filter((it) => isBelow(it, pid));

const CLIENTS: [string, () => string][] = [
  ['curl by plain HTTP', () => `curl -sS ${url()}/plain`],
  ['curl by CONNECT', () => `curl -sS -p ${url()}/connect`],
  ['curl by SOCKS5', () => `curl -sS --proxy $ALL_PROXY ${url()}/socks`],
  ['git', () => `git ls-remote ${url()}/repository 2>/dev/null || echo served`],
];
test.each(CLIENTS)('%s reaches what is listed', async (_, command) => {
  const before = seen.length;
  const result = await run(command());
  expect(await dataOf(Promise.resolve(result))).toMatchObject({ stdout: 'served\n', stderr: '' });
  expect(seen.length).toBeGreaterThan(before);
  expect(result.metadata).not.toHaveProperty('denied');
});

test('an attempt to reach an unlisted host is reported to the command, in the result and in the record', async () => {
  const result = await run('curl -sS http://evil.test/; curl -sS --proxy $ALL_PROXY http://evil.test:81/');
  const said = await dataOf(Promise.resolve(result));
  expect(said).toMatchObject({
    stdout: expect.stringContaining('does not let this command connect to evil.test:80'),
    exitCode: 97,
  });
  const rest = { kind: 'connect', rule: 'tiers.execute.network', layer: 'policy', count: 1 };
  const denied = ['evil.test:80', 'evil.test:81'].map((target) => ({ ...rest, target }));
  expect(result.metadata.denied).toMatchObject(denied);
  expect(result.metadata.denied?.[0]?.suggestion).toContain(
    'Ask the person to add `evil.test:80` to tiers.execute.network.allow',
  );
  await run(`curl -sS ${url()}/`);
  await using operator = await daemon.connect({ role: 'operator' });
  const { entries } = (await operator.request('audit.query', { kind: 'outcome', order: 'newest', limit: 2 })) as {
    entries: { detail?: object }[];
  };
  expect(entries.map((it) => it.detail)).toMatchObject([
    { connected: [{ target: `127.0.0.1:${port}`, count: 1 }] },
    { denied: denied.map(({ kind, target, rule, layer }) => ({ kind, target, rule, layer })) },
  ]);
});

test('a call that fails tells what it could not connect to', async () => {
  const result = await run('curl -sS http://evil.test/; sleep 60', { timeout: 1500 });
  expect(result).toMatchObject({
    error: { code: 'TIMEOUT', details: { denied: [{ host: 'evil.test', port: 80, rule: 'tiers.execute.network' }] } },
  });
});

const WAYS: [string, string][] = [
  ['the proxy left out', 'curl -sS --noproxy "*" http://192.0.2.1/'],
  ['IPv6', 'curl -sS --noproxy "*" "http://[2001:db8::1]/"'],
  [
    'a datagram',
    `perl -MSocket -e 'socket S,AF_INET,SOCK_DGRAM,0;send(S,"x",0,sockaddr_in(53,inet_aton("192.0.2.1"))) or exit 1'`,
  ],
];
test.each(WAYS)('there is no way out but the proxy: %s', async (_, command) => {
  const result = await run(command);
  expect((await dataOf<{ exitCode?: number | undefined }>(Promise.resolve(result))).exitCode).not.toBe(0);
  expect(result.metadata.denied).toMatchObject([{ kind: 'connect', layer: 'sandbox', target: 'network' }]);
});

test.each([
  '2130706433',
  '0x7f.1',
  '0177.0.0.1',
  '[::ffff:127.0.0.1]',
  '[::1]',
  '0.0.0.0',
  '169.254.169.254',
  'localhost',
])("the machine's own %s is refused unless it is named", async (host) => {
  const before = seen.length;
  const { port: other } = { port: port === 65_535 ? 1 : port + 1 };
  const result = await run(`curl -gsS -o /dev/null -w '%{http_code}' http://${host}:${other}/`);
  expect(await dataOf(Promise.resolve(result))).toMatchObject({ stdout: '403' });
  expect(result.metadata.denied).toHaveLength(1);
  expect(seen).toHaveLength(before);
});

test('the proxy leaves nothing in the sandbox, and the command reaches no other command', async () => {
  // Without a pipeline: bash holds the pipe of one for a moment.
  const look = `(for fd in /proc/$$/fd/* /proc/1/fd/*; do [ \${fd##*/} -gt 2 ] && readlink $fd; done) > /tmp/fds; grep -cE "socket|pipe|listen" /tmp/fds; ls -A /dev/shm; env | grep -c TOKEN`;
  expect(await dataOf(run(look))).toMatchObject({ stdout: '0\n0\n' });
  const traces = `cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ | tr '\\0' '\\n' | grep -cE '[0-9a-f]{40}'; grep -c dist/native /proc/self/mountinfo`;
  expect(await dataOf(run(traces))).toMatchObject({ stdout: '0\n0\n' });
  const listen = `perl -MIO::Socket::INET -e '$|=1; $s=IO::Socket::INET->new(Listen=>1,LocalAddr=>"127.0.0.1:5555") or die $@; print "up\\n"; $SIG{ALRM}=sub{exit 0}; alarm 2; $s->accept and print "reached\\n"'`;
  const connect = `perl -MIO::Socket::INET -e 'for (1..50) { IO::Socket::INET->new("127.0.0.1:5555") and print "reached"; select undef,undef,undef,.02 }'`;
  const [listening, connecting] = await Promise.all([dataOf(run(listen)), dataOf(run(connect))]);
  expect(listening).toMatchObject({ stdout: 'up\n', stderr: '', exitCode: 0 });
  expect(connecting).toMatchObject({ stdout: '' });
});

test('`ps` shows no token of a command that may connect, nor of its launcher', async () => {
  const running = run('sleep 1');
  let shown: string[] = [];
  await until(() => {
    const ours = processesWith('native/x64/door').filter((pid) => isBelow(pid, daemon.pid));
    shown = ours.map((pid) => readFileSync(`/proc/${pid}/cmdline`, 'utf8'));
    return shown.length > 0;
  });
  expect(shown.filter((it) => /[0-9a-f]{40}/.test(it))).toEqual([]);
  await running;
});

test('thousands of connections leave the proxy to others', async () => {
  const flood = `perl -MIO::Socket::INET -e '$SIG{ALRM}=sub{exit}; alarm 3; for (1..3000) { push @s, IO::Socket::INET->new("127.0.0.1:3128"); shift @s if @s > 500 }'`;
  const flooding = run(flood, { timeout: 20_000 });
  for (let i = 0; i < 5; i++) expect(await dataOf(run(`curl -sS ${url()}/`))).toMatchObject({ stdout: 'served\n' });
  expect((await flooding).metadata.denied).toMatchObject([{ layer: 'limit', target: 'connections' }]);
});

test('a proxy that was killed under a command is missed by that one only', async () => {
  const before = proxiesOf(daemon);
  expect(before.length).toBeGreaterThan(0);
  const under = run('(exec -a marker-under-proxy sleep 1); curl -sS http://listed.test/');
  await until(() => processesWith('marker-under-proxy').length > 0);
  for (const pid of before) process.kill(pid, 'SIGKILL');
  expect((await under).metadata.warnings).toEqual([expect.stringContaining('the egress proxy ended')]);
  expect(await dataOf(run(`curl -sS ${url()}/`))).toMatchObject({ stdout: 'served\n' });
  expect(proxiesOf(daemon).filter((it) => before.includes(it))).toEqual([]);
});

describe('policies', () => {
  test("policies of a workspace narrow the network, and sessions don't share what theirs permit", async () => {
    const none = join(daemon.workspace, 'none');
    const other = join(daemon.workspace, 'other');
    for (const [folder, network] of [
      [none, 'none'],
      [other, '{ allow: [other.test] }'],
    ] as const) {
      mkdirSync(join(folder, '.ringfence'), { recursive: true });
      writeFileSync(join(folder, '.ringfence/policy.yaml'), `tiers: { execute: { network: ${network} } }\n`);
    }
    await using withNone = await daemon.connect({ workspace: none });
    await using withOther = await daemon.connect({ workspace: other });
    const fetch = `curl -sS -o /dev/null -w '%{http_code}' ${url()}/`;
    const [all, nothing, little] = await Promise.all([run(fetch), run(fetch, {}, withNone), run(fetch, {}, withOther)]);
    expect(await dataOf(Promise.resolve(all))).toMatchObject({ stdout: '200' });
    expect(await dataOf(Promise.resolve(nothing))).toMatchObject({ stdout: '403' });
    expect(nothing.metadata.denied).toMatchObject([{ target: `127.0.0.1:${port}`, open: `127.0.0.1:${port}` }]);
    expect(await dataOf(Promise.resolve(little))).toMatchObject({ stdout: '403' });
    expect(little.metadata.denied).toMatchObject([{ target: `127.0.0.1:${port}` }]);
  });
});

describe('a policy that lists no host', () => {
  let without: TestDaemon;
  let session: Client;
  beforeAll(async () => {
    without = await startDaemon();
    session = await without.connect();
  });
  afterAll(async () => {
    await session[Symbol.asyncDispose]();
    await without[Symbol.asyncDispose]();
  });

  /** Programs that connect, and what they are refused: a name alone where they look it up past the proxy. */
  const PROGRAMS: [string, string, string][] = [
    ['curl', 'curl -sS https://a.example/', 'a.example:443'],
    ['npm', 'npm view left-pad --fetch-retries=0', 'registry.npmjs.org:443'],
    ['python3 -m pip', 'python3 -m pip download --retries 0 --no-input six', 'pypi.org:443'],
    ['git', 'git ls-remote https://git.example/a.git', 'git.example:443'],
    ['cargo', 'cargo search left-pad', 'crates.io:443'],
    ['go', 'GOFLAGS=-mod=mod go list -m example.org/a@latest', 'proxy.golang.org:443'],
    ['/usr/bin/node', `/usr/bin/node -e 'fetch("https://node.example/").catch(() => process.exit(1))'`, 'node.example'],
    ['python3', `python3 -c 'import urllib.request as it; it.urlopen("https://py.example/")'`, 'py.example:443'],
    ['ssh', 'ssh -o BatchMode=yes git@ssh.example', 'ssh.example'],
  ];
  test.each(PROGRAMS)('refuses %s by name', async (_, command, target) => {
    const result = await session.call('terminal_execute', { command });
    // Not installed where sandboxes see it.
    const { exitCode, missing } = await dataOf<{ exitCode?: number | undefined; missing?: object | undefined }>(
      Promise.resolve(result),
    );
    if (missing) return;
    expect(exitCode).not.toBe(0);
    const denied = result.metadata.denied ?? [];
    expect(denied.map((it) => it.target).some((it) => it === target || it.startsWith(`${target}:`))).toBe(true);
    expect(denied[0]).toMatchObject({ kind: 'connect', rule: 'tiers.execute.network', layer: 'policy' });
  });

  test('answers within 300 ms, also a name that is asked past the proxy', async () => {
    const timed = `curl -s -o /dev/null -w '%{time_total} ' https://a.example/; curl --noproxy '*' -s -w '%{time_total}' https://b.example/`;
    const { stdout } = await dataOf<{ stdout: string }>(session.call('terminal_execute', { command: timed }));
    const [byProxy = 1, byName = 1] = stdout.split(' ').map(Number);
    expect(Math.max(byProxy, byName)).toBeLessThan(0.3);
  });

  test('says which entry opens a host, and counts what goes around the proxy', async () => {
    const command = 'curl -sS http://a.example:81/; curl -sS --noproxy "*" http://192.0.2.1/';
    const result = await session.call('terminal_execute', { command });
    expect(result.metadata.denied).toMatchObject([
      { target: 'a.example:81', open: 'a.example:81', count: 1 },
      { layer: 'sandbox', target: 'network' },
    ]);
    expect((await session.call('terminal_execute', { command: 'true' })).metadata).not.toHaveProperty('denied');
  });
});

test('the proxy dies with its daemon', async () => {
  const other = await startDaemon({ policy: policyOf('example.com') });
  const session = await other.connect();
  await dataOf(run('true', {}, session));
  const own = proxiesOf(other);
  expect(own.length).toBeGreaterThan(0);
  process.kill(other.pid, 'SIGKILL');
  await other.ended;
  await until(() => processesWith('workers/egress').every((pid) => !own.includes(pid)));
  await session[Symbol.asyncDispose]();
  await other[Symbol.asyncDispose]();
});
