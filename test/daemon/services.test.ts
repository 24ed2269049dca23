/** Services of this machine: a command that meets no listener is told of the machine's, a person is asked, and the answer opens it. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type Client, createClient } from '../../src/client/client.ts';
import type { Grant } from '../../src/store/approvals/approval.ts';
import { canServeOthers, startDaemon, type TestDaemon, until } from '../support/daemon.ts';
import { answerAccess } from '../support/doors.ts';
import { type ListeningProgram, listenWithNode, listenWithPerl } from '../support/listening.ts';
import { missingPostgres, startPostgres } from '../support/postgres.ts';

const FOR_PROJECT = { scope: 'project', match: 'door' };
const YES = { decision: 'approve' };

let daemon: TestDaemon;
let operator: Client;
let client: Client;
let server: ListeningProgram;

beforeAll(async () => {
  daemon = await startDaemon({ args: ['--listen-http', '0'] });
  operator = await daemon.connect({ role: 'operator' });
  server = await listenWithNode();
});
afterAll(async () => {
  await server[Symbol.asyncDispose]();
  await operator[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});
beforeEach(async () => {
  client = await daemon.connect();
});
afterEach(async () => {
  await operator.request('approvals.revoke', { all: true });
  await client[Symbol.asyncDispose]();
});

async function run(command: string, by = client) {
  const result = await by.call('terminal_execute', { command });
  const { stdout = '', stderr = '', exitCode = -1 } = result.success ? result.data : {};
  return { stdout, stderr, exitCode, denied: result.metadata.denied ?? [] };
}

/** Connects in the sandbox and prints the first line that comes, as bash does without any program. */
const greeting = (port: number) => `exec 3<>/dev/tcp/127.0.0.1/${port} && head -n1 <&3`;

/** Asks for a service, and has the person answer. */
const request = (service: number, answer: object, by = client) => answerAccess({ service }, answer, { by, operator });

/** The error of a request that asks nobody. */
async function refused(service: number) {
  const result = await client.call('access_request', { service });
  return result.success ? undefined : `${result.error.code}: ${result.error.message}`;
}

describe('a service of the machine', () => {
  test('a command that is refused a connection is told how to ask, and connects after a yes', async () => {
    const { port } = server;
    const before = await run(greeting(port));
    expect(before.exitCode).not.toBe(0);
    const open = `access_request {"service":${port}}`;
    const identity = `${process.execPath} of ${process.getuid?.() === 0 ? 'root' : process.env.USER}`;
    expect(before.denied).toEqual([
      expect.objectContaining({ kind: 'connect', target: `127.0.0.1:${port}`, layer: 'sandbox', open }),
    ]);
    expect(before.denied[0]?.reason).toContain(identity);
    const { asked, result } = await request(port, YES);
    expect(asked.door).toEqual({ kind: 'service', target: `127.0.0.1:${port} ${identity}` });
    expect(result).toMatchObject({ success: true, data: { service: port, opened: true } });
    expect(await run(greeting(port))).toMatchObject({ stdout: 'hello\n', exitCode: 0, denied: [] });
    expect(await refused(port)).toContain('already');
  });

  test('a name, several connections at once and megabytes pass as they are', async () => {
    await request(server.port, YES);
    const script = `
      const one = () => new Promise((resolve, reject) => {
        const it = require("node:net").connect(${server.port}, "localhost");
        let bytes = 0;
        it.on("data", (chunk) => { bytes += chunk.length; }).on("end", () => resolve(bytes)).on("error", reject);
        // Node 20 forgets an end before it has tried both addresses of a name.
        it.on("connect", () => it.end(Buffer.alloc(2_000_000, 7)));
      });
      Promise.all([one(), one(), one()]).then((all) => console.log(all.join()));`;
    expect(await run(`node -e '${script}'`)).toMatchObject({ stdout: '2000006,2000006,2000006\n' });
  });

  test('a yes for the session counts for that session, one for the project for later ones, until it is revoked', async () => {
    const { port } = server;
    await request(port, YES);
    await using other = await daemon.connect();
    expect((await run(greeting(port), other)).exitCode).not.toBe(0);
    await request(port, { ...YES, remember: FOR_PROJECT }, other);
    await using third = await daemon.connect();
    expect((await run(greeting(port), third)).stdout).toBe('hello\n');
    const { grants } = (await operator.request('approvals.grants', {})) as { grants: Grant[] };
    const grantId = grants.find((it) => it.scope === 'project')?.grantId;
    await operator.request('approvals.revoke', { grantId });
    expect((await run(greeting(port), third)).exitCode).not.toBe(0);
  });

  test('a session that was passed on has none of it', async () => {
    await request(server.port, YES);
    const { token } = (await client.request('sessions.attenuate', { expiresIn: 60_000 })) as { token: string };
    await using child = await createClient({ socket: daemon.socket, workspace: daemon.workspace, token });
    expect((await run(greeting(server.port), child)).exitCode).not.toBe(0);
  });

  test('a no is said to the agent', async () => {
    await using own = await listenWithNode();
    const { result } = await request(own.port, { decision: 'deny' });
    expect(result).toMatchObject({ success: false, error: { code: 'APPROVAL_DENIED' } });
    expect((await run(greeting(own.port))).exitCode).not.toBe(0);
  });

  test.each(['0.0.0.0', '::', '::1'])('a listener at %s is reached at 127.0.0.1', async (host) => {
    await using own = await listenWithNode({ host });
    await request(own.port, YES);
    expect(await run(greeting(own.port))).toMatchObject({ stdout: 'hello\n' });
  });

  test('a command in the background reaches it, and not after the answer is revoked', async () => {
    const { port } = server;
    await request(port, YES);
    const line = `for i in $(seq 200); do (${greeting(port)}) 2>/dev/null || break; sleep 0.05; done; echo closed`;
    const started = await client.call('terminal_execute', { command: line, background: true });
    const { handle } = (started as { data: { handle: string } }).data;
    const output = async () => {
      const it = await client.call('terminal_output', { handle });
      return it.success ? (it.data as { output: string }).output : '';
    };
    await until(async () => (await output()).includes('hello'));
    await operator.request('approvals.revoke', { all: true });
    const count = async () => (await output()).split('hello').length;
    // One connection may be under way.
    const then = await count();
    await until(async () => (await output()).includes('closed') || (await count()) === then);
    expect(await count()).toBeLessThanOrEqual(then + 1);
  });

  test.skipIf(missingPostgres)('psql in the sandbox works with a PostgreSQL of the machine', async () => {
    await using postgres = await startPostgres();
    const { port, password } = postgres;
    const psql = `PGPASSWORD=${password} psql -h localhost -p ${port} -U postgres -tAc 'select 6 * 7'`;
    const before = await run(psql);
    expect(before.exitCode).not.toBe(0);
    expect(before.denied[0]).toMatchObject({ open: `access_request {"service":${port}}` });
    const { asked } = await request(port, YES);
    expect(asked.door?.target).toMatch(/postgres of /);
    expect(await run(psql)).toMatchObject({ stdout: '42\n', exitCode: 0 });
  });
});

describe('what is not opened', () => {
  test('another program at the port is refused, and the same one is not when it starts again', async () => {
    const own = await listenWithNode();
    const { port } = own;
    await request(port, YES);
    await own[Symbol.asyncDispose]();
    await using _ = await (async () => {
      await using other = await listenWithPerl(port);
      const { stdout, denied } = await run(greeting(other.port));
      expect(stdout).toBe('');
      expect(denied[0]?.reason).toContain('which is not what a person agreed to');
      return { async [Symbol.asyncDispose]() {} };
    })();
    await using again = await listenWithNode({ port });
    expect(await run(greeting(again.port))).toMatchObject({ stdout: 'hello\n' });
  });

  test('a port where nothing listens is no question, and no hint', async () => {
    const own = await listenWithNode();
    await own[Symbol.asyncDispose]();
    expect(await run(greeting(own.port))).toMatchObject({ denied: [] });
    expect(await refused(own.port)).toMatch(/^INPUT_INVALID: nothing of this machine listens/);
    for (const port of [3128, 53]) expect(await refused(port)).toMatch(/^INPUT_INVALID/);
  });

  test('Ringfence itself is named and never asked about', async () => {
    const port = Number(/:(\d+)/.exec(daemon.listeners.find((it) => it.startsWith('http')) ?? '')?.[1]);
    const { denied } = await run(greeting(port));
    expect(denied[0]?.reason).toContain('is Ringfence itself; no answer opens it');
    expect(denied[0]).not.toHaveProperty('open');
    expect(await refused(port)).toMatch(/^ACCESS_DENIED: .*Ringfence itself/);
  });

  test("Node's inspector, at any port and opened late, is no question", async () => {
    const child = spawn(process.execPath, ['-e', 'require("node:inspector").open(0); setInterval(() => {}, 1e6)'], {
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    const [line] = (await once(child.stderr as NodeJS.ReadableStream, 'data')) as [Buffer];
    const port = Number(/127\.0\.0\.1:(\d+)/.exec(line.toString())?.[1]);
    expect(await refused(port)).toMatch(/^ACCESS_DENIED: .* is a debugger/);
    child.kill('SIGKILL');
  });

  test('a server that becomes a debugger at a port that was agreed on is refused', async () => {
    const own = await listenWithNode();
    const { port } = own;
    await request(port, YES);
    await own[Symbol.asyncDispose]();
    const child = spawn(process.execPath, [`--inspect=${port}`, '-e', 'setInterval(() => {}, 1e6)'], {
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    await once(child.stderr as NodeJS.ReadableStream, 'data');
    const { stdout, denied } = await run(`curl -s http://127.0.0.1:${port}/json/version`);
    expect(stdout).toBe('');
    expect(denied[0]?.reason).toContain('is a debugger');
    child.kill('SIGKILL');
  });

  test.each([
    [
      'a container engine',
      'HTTP/1.1 200 OK\r\nApi-Version: 1.41\r\nServer: Docker/20.10\r\n\r\nOK',
      'container engine',
    ],
    ['WebDriver', 'HTTP/1.1 200 OK\r\n\r\n{"value":{"message":"","ready":true}}', 'controlled'],
    ['a Java debugger', 'JDWP-Handshake', 'debugger'],
    ['an SSH server', 'SSH-2.0-OpenSSH_9.2\r\n', 'controlled'],
  ])('%s is known by what it answers', async (_, answer, kind) => {
    await using own = await listenWithNode({ answer });
    expect(await refused(own.port)).toMatch(new RegExp(`^ACCESS_DENIED: .*${kind}`));
  });
});

test.skipIf(!canServeOthers)('a program of another user than the daemon is named by that user', async () => {
  const owner = { uid: 65_534, gid: 65_534 };
  await using own = await startDaemon({ owner });
  await using session = await own.connect();
  const { denied } = await run(greeting(server.port), session);
  expect(denied[0]?.reason).toMatch(/^a program of root of this machine listens there/);
});

describe('without a person', () => {
  test('a policy that has nobody asked says which entry opens the port, and with the entry the port is open', async () => {
    const { port } = server;
    const run2 = async (policy: string) => {
      await using own = await startDaemon({ policy });
      await using session = await own.connect();
      const ran = await run(greeting(port), session);
      const asked = await session.call('access_request', { service: port });
      return { ...ran, asked: asked.success ? undefined : asked.error };
    };
    const closed = await run2('extends: unattended\n');
    expect(closed.denied[0]?.suggestion).toContain(`add \`127.0.0.1:${port}\` to tiers.execute.network.allow`);
    expect(closed.asked?.code).toMatch(/POLICY_DENIED|APPROVAL_DENIED|APPROVAL_TIMEOUT/);
    const listed = await run2(
      `extends: default\napprovals: { headless: deny }\ntiers:\n  execute: { network: { allow: ["127.0.0.1:${port}"] } }\n`,
    );
    expect(listed).toMatchObject({ stdout: 'hello\n', exitCode: 0 });
  });
});
