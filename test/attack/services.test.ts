/** An agent for which a person opened a service of the machine reaches that one alone, and learns little of the others. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import type { Approval } from '../../src/store/approvals/approval.ts';
import { dataOf, startDaemon, type TestDaemon, until } from '../support/daemon.ts';
import { type ListeningProgram, listenWithNode } from '../support/listening.ts';

let daemon: TestDaemon;
let operator: Client;
let client: Client;
let server: ListeningProgram;

beforeAll(async () => {
  daemon = await startDaemon();
  operator = await daemon.connect({ role: 'operator' });
  client = await daemon.connect();
  server = await listenWithNode();
});
afterAll(async () => {
  await server[Symbol.asyncDispose]();
  await client[Symbol.asyncDispose]();
  await operator[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});
afterEach(() => operator.request('approvals.revoke', { all: true }));

const questions = async () =>
  ((await operator.request('approvals.list', {})) as { approvals: Approval[] }).approvals.filter((it) => it.door);

async function open(service: number) {
  const call = client.call('access_request', { service });
  await until(async () => (await questions()).length > 0);
  const [asked] = await questions();
  await operator.request('approvals.resolve', { approvalId: asked?.approvalId, decision: 'approve' });
  await call;
}

const run = async (command: string) => {
  const result = await client.call('terminal_execute', { command });
  return { stdout: result.success ? (result.data as { stdout: string }).stdout : '', metadata: result.metadata };
};
const greet = (port: number, host = '127.0.0.1') => `(exec 3<>/dev/tcp/${host}/${port} && head -n1 <&3) 2>/dev/null`;

test('a yes opens one port and no other, at any address of the machine, by the proxy or past it', async () => {
  await using other = await listenWithNode({ host: '0.0.0.0' });
  await open(server.port);
  expect((await run(greet(server.port))).stdout).toBe('hello\n');
  const proxied = `curl -s -p -x http://127.0.0.1:3128 --noproxy '' -o /dev/null -w '%{http_connect}' http://127.0.0.1:`;
  const tries = [
    greet(other.port),
    greet(other.port, 'localhost'),
    greet(server.port, '127.0.0.2'),
    greet(other.port, '0.0.0.0'),
    `curl -s --max-time 2 http://[::1]:${other.port}`,
  ];
  for (const it of tries) expect((await run(it)).stdout, it).not.toContain('hello');
  // The yes is for what is relayed, and no entry of the list of hosts.
  for (const { port } of [server, other]) expect((await run(`${proxied}${port}`)).stdout).toContain('403');
});

test('a command that scans its loopback is told of four services at most, and holds nobody up', async () => {
  const all = await Promise.all(Array.from({ length: 6 }, () => listenWithNode()));
  const ports = all.map((it) => it.port).join(' ');
  const { metadata } = await run(
    `for it in ${ports} $(seq 2000 4000); do (exec 3<>/dev/tcp/127.0.0.1/$it) 2>/dev/null; done`,
  );
  const told = metadata.denied?.filter((it) => it.open?.startsWith('access_request')) ?? [];
  expect(told.length).toBeLessThanOrEqual(4);
  for (const it of all) await it[Symbol.asyncDispose]();
});

test('a flood of connections to a service leaves the daemon to others', async () => {
  await open(server.port);
  const flood = `
    const { connect } = require("node:net");
    let done = 0;
    const next = () => connect(${server.port}, "127.0.0.1").on("data", function () { this.destroy(); }).on("error", () => {})
      .on("close", () => { done += 1; next(); });
    for (let at = 0; at < 64; at++) next();
    const until = Date.now() + 3000;
    setInterval(() => { if (done > 0 && Date.now() > until) { console.log(done); process.exit(); } }, 100);`;
  await using other = await daemon.connect();
  const flooded = run(`node -e '${flood}'`);
  let longest = 0;
  for (let at = 0; at < 20; at++) {
    const start = performance.now();
    await dataOf(other.call('file_list', { path: '.' }));
    longest = Math.max(longest, performance.now() - start);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  expect(Number((await flooded).stdout)).toBeGreaterThan(0);
  expect(longest).toBeLessThan(1_500);
});

test('a server of another sandbox is no service of the machine', async () => {
  const script =
    'require("net").createServer((it) => it.end("inner\\n")).listen(45981, "127.0.0.1", () => console.log("up"))';
  const { handle } = (await dataOf(
    client.call('terminal_execute', { command: `node -e '${script}'`, background: true }),
  )) as unknown as { handle: string };
  await until(async () => `${(await dataOf(client.call('terminal_output', { handle }))).output}`.includes('up'));
  expect(await client.call('access_request', { service: 45_981 })).toMatchObject({ error: { code: 'INPUT_INVALID' } });
  await client.call('terminal_kill', { handle });
});

test('a command with a server of its own keeps its loopback where nothing was opened', async () => {
  const script = `const n = require("net"); n.createServer((it) => it.end("mine\\n")).listen(${server.port}, "127.0.0.1", () =>
    n.connect(${server.port}, "127.0.0.1").on("data", (it) => { process.stdout.write(it); process.exit(); }))`;
  expect((await run(`node -e '${script}'`)).stdout).toBe('mine\n');
});

test("a port that a person forwards from a sandbox is Ringfence's, and opens none to another", async () => {
  // A process that is named like ours stands for `ringfence forward`, which listens in the person's terminal.
  const child = spawn(
    '/bin/bash',
    [
      '-c',
      `exec -a ringfence perl -MIO::Socket::INET -e '$| = 1; my $s = IO::Socket::INET->new(Listen => 1, LocalAddr => "127.0.0.1"); print $s->sockport, "\\n"; sleep 60'`,
    ],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  );
  const [line] = (await once(child.stdout as NodeJS.ReadableStream, 'data')) as [Buffer];
  const asked = await client.call('access_request', { service: Number(line.toString()) });
  expect(asked).toMatchObject({
    error: { code: 'ACCESS_DENIED', message: expect.stringContaining('Ringfence itself') },
  });
  child.kill('SIGKILL');
});
