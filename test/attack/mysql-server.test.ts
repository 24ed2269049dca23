/** MySQL servers that lie in any message, asked by a real daemon: they get no password and no file, and end no more than their call. */
import { createServer, type Server, type Socket } from 'node:net';
import fc from 'fast-check';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { runCli } from '../support/cli.ts';
import { startDaemon, type TestDaemon } from '../support/daemon.ts';
import { peakMemoryOf, serverProcessOf } from '../support/database-server.ts';

const PASSWORD = 'password-canary-7734';
const CALL_MS = 600;
const LIMITS = { egressConnectMs: 1_000, databaseEndMs: 50, databaseWireBytes: 256 * 1024 };

const [COM_QUIT, COM_PREPARE, COM_CLOSE] = [0x01, 0x16, 0x19];

/** One message of the protocol, whose header may claim another length. */
function message(sequence: number, body: Uint8Array, length = body.length): Buffer {
  const head = Buffer.alloc(4);
  head.writeUIntLE(length % 2 ** 24, 0, 3);
  head[3] = sequence;
  return Buffer.concat([head, body]);
}

const text = (it: string): Buffer => Buffer.from(`${it}\0`, 'latin1');

/** The greeting of a server that asks for the password by a method. */
function greeting(method: string): Buffer {
  const numbers = Buffer.alloc(31);
  numbers.writeUInt32LE(7, 0); // The number of the session.
  numbers.fill('s', 4, 12);
  numbers.writeUInt16LE(0xa289, 13); // What the server can do, LOCAL INFILE and a password among it.
  numbers[15] = 45;
  numbers.writeUInt16LE(2, 16);
  numbers.writeUInt16LE(0x0008, 18); // It names its method.
  numbers[20] = 21;
  return message(0, Buffer.concat([Buffer.from([10]), text('8.0.30'), numbers, text('s'.repeat(12)), text(method)]));
}

const OK = Buffer.from([0, 0, 0, 2, 0, 0, 0]);
const PREPARED = Buffer.from([0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
const LOCAL_INFILE = Buffer.concat([Buffer.from([0xfb]), Buffer.from('/etc/passwd')]);
const switchTo = (method: string, data = ''): Buffer =>
  Buffer.concat([Buffer.from([0xfe]), text(method), Buffer.from(data)]);

/** What a server sends in place of its answer with a number: the greeting is 0, the end of the login 1. */
interface Lie {
  readonly at: number;
  readonly bytes: readonly Buffer[];
}

/** Answers as a MySQL server without tables does, until its lie; then it sends what that holds, and nothing more. */
class LyingServer {
  lie: Lie = { at: Number.POSITIVE_INFINITY, bytes: [] };
  received: Buffer[] = [];
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  constructor() {
    this.#server = createServer((socket) => this.#serve(socket));
  }

  async listen(): Promise<number> {
    await new Promise<void>((ready) => void this.#server.listen(0, '127.0.0.1', ready));
    return (this.#server.address() as { port: number }).port;
  }

  /** Ends the sessions that clients keep; resolves when these have ended them, too. */
  async hangUp(): Promise<void> {
    const closed = [...this.#sockets].map((it) => new Promise((resolve) => it.once('close', resolve)));
    for (const it of this.#sockets) it.end();
    await Promise.all(closed);
  }

  async close(): Promise<void> {
    for (const it of this.#sockets) it.destroy();
    await new Promise((closed) => this.#server.close(closed));
  }

  #serve(socket: Socket): void {
    this.#sockets.add(socket);
    const { at, bytes } = this.lie;
    const lies = [...bytes];
    let answers = 0;
    const answer = (honest: Buffer) => {
      const next = answers >= at ? lies.shift() : honest;
      answers += 1;
      if (next && socket.writable) socket.write(next);
    };
    socket.on('error', () => {}).on('close', () => this.#sockets.delete(socket));
    let pending: Buffer = Buffer.alloc(0);
    let isLoggedIn = false;
    socket.on('data', (chunk: Buffer) => {
      this.received.push(chunk);
      pending = Buffer.concat([pending, chunk]);
      while (pending.length >= 4 && pending.length >= 4 + pending.readUIntLE(0, 3)) {
        const length = pending.readUIntLE(0, 3);
        const [sequence = 0, command = 0] = [pending[3], pending[4]];
        pending = pending.subarray(4 + length);
        if (isLoggedIn && (command === COM_CLOSE || command === COM_QUIT)) continue;
        answer(message(sequence + 1, command === COM_PREPARE && isLoggedIn ? PREPARED : OK));
        isLoggedIn = true;
      }
    });
    answer(greeting('mysql_native_password'));
  }
}

describe('a MySQL server that lies', () => {
  const server = new LyingServer();
  let daemon: TestDaemon;
  let agent: Client;
  beforeAll(async () => {
    const port = await server.listen();
    const source = { kind: 'mysql', host: '127.0.0.1', port, database: 'shop', user: 'agent', secret: 'db' };
    daemon = await startDaemon({
      config: { databases: { liar: { ...source, tls: 'off', private: true } } },
      limits: LIMITS,
    });
    await runCli(daemon, ['secret', 'set', 'db'], { stdin: PASSWORD });
    agent = await daemon.connect();
  });
  beforeEach(() => {
    server.received = [];
  });
  afterAll(async () => {
    await agent?.[Symbol.asyncDispose]();
    await daemon?.[Symbol.asyncDispose]();
    await server.close();
  });

  async function ask(lie: Lie, timeoutMs = CALL_MS) {
    // A lie begins with the login.
    await server.hangUp();
    server.lie = lie;
    const input = { connection: 'liar', sql: 'SELECT 1' };
    return await agent.call('database_query', input, { timeoutMs });
  }
  const codeOf = async (lie: Lie, timeoutMs?: number) => {
    const result = await ask(lie, timeoutMs);
    return result.success ? 'ok' : result.error.code;
  };
  function expectNothingGiven() {
    const all = Buffer.concat(server.received).toString('latin1');
    expect(all).not.toContain(PASSWORD);
    expect(all).not.toContain('root:');
  }

  test('a MySQL server that does not lie is asked in a read-only transaction', async () => {
    const result = await ask({ at: Number.POSITIVE_INFINITY, bytes: [] }, 10_000);
    expect(result).toMatchObject({ success: true, data: { rows: [], truncated: false } });
    const commands = Buffer.concat(server.received).toString('latin1');
    expect(commands).toContain('START TRANSACTION READ ONLY');
  });

  test.each([
    ['the login', 1],
    ['the grants', 3],
    ['the settings', 6],
    ['the query', 10],
  ])('gets no file when it asks for one in place of the answer to %s', async (_, at) => {
    for (const after of [OK, LOCAL_INFILE]) {
      const bytes = [message(1, LOCAL_INFILE), message(3, after), message(1, after)];
      expect(await codeOf({ at, bytes })).not.toBe('ok');
    }
    expectNothingGiven();
  });

  test.each([
    ['mysql_clear_password', ''],
    ['dialog', 'password'],
    ['sha256_password', 'x'.repeat(20)],
    ['caching_sha2_password', 'x'.repeat(20)],
    ['mysql_old_password', 'x'.repeat(8)],
    ['no_such_method', ''],
  ])('gets no password by asking for it with %s', async (method, data) => {
    // 4 asks for the whole password; what looks like a key of the server follows.
    const more = [Buffer.from([1, 4]), Buffer.concat([Buffer.from([1]), Buffer.from('-----BEGIN PUBLIC KEY-----')])];
    const bytes = [message(2, switchTo(method, data)), ...more.map((it, at) => message(4 + 2 * at, it))];
    expect(await codeOf({ at: 1, bytes })).not.toBe('ok');
    expectNothingGiven();
  });

  test.each([2, 6, 7, 8, 10])(
    'a MySQL server that is silent instead of sending answer %i keeps no session from the next call',
    async (at) => {
      expect(await codeOf({ at: Number.POSITIVE_INFINITY, bytes: [] }, 10_000)).toBe('ok');
      const pid = serverProcessOf(daemon.pid);
      // More of them than there are sessions.
      const silent = Array.from({ length: 5 }, () => codeOf({ at, bytes: [] }));
      expect(new Set(await Promise.all(silent))).toEqual(new Set(['TIMEOUT']));
      expect(await codeOf({ at: Number.POSITIVE_INFINITY, bytes: [] }, 10_000)).toBe('ok');
      // Time in which the process would be ended if it had not answered the calls that were cancelled.
      await new Promise((resolve) => setTimeout(resolve, 2 * (LIMITS.egressConnectMs + 2 * LIMITS.databaseEndMs)));
      expect(serverProcessOf(daemon.pid)).toBe(pid);
    },
  );

  test('fills no memory with one message or with many', async () => {
    expect(await codeOf({ at: Number.POSITIVE_INFINITY, bytes: [] }, 10_000)).toBe('ok');
    const pid = serverProcessOf(daemon.pid);
    const before = peakMemoryOf(pid);
    const row = message(3, Buffer.alloc(60_000, 1));
    const endless = Buffer.concat(Array.from({ length: 200 }, () => row));
    for (const bytes of [endless, message(1, Buffer.alloc(2_000_000, 1)), message(1, Buffer.alloc(10), 0xffffff)]) {
      const result = await ask({ at: 10, bytes: [bytes, endless] });
      expect(result.success && !result.data.truncated).toBe(false);
    }
    expect(serverProcessOf(daemon.pid)).toBe(pid);
    expect(peakMemoryOf(pid) - before).toBeLessThan(64);
  });

  const body = fc.oneof(
    fc.uint8Array({ minLength: 1, maxLength: 64 }),
    fc.constantFrom<Uint8Array>(OK, PREPARED, LOCAL_INFILE, switchTo('mysql_clear_password'), Buffer.from([0xfe])),
    // The first byte tells errors, ends, nulls, and the number of columns.
    fc
      .tuple(fc.constantFrom(0, 1, 2, 0xfb, 0xfc, 0xfd, 0xfe, 0xff), fc.uint8Array({ maxLength: 40 }))
      .map(([first, rest]) => Buffer.concat([Buffer.from([first]), rest])),
    fc.string({ maxLength: 40 }).map((it) => Buffer.concat([Buffer.from([3]), Buffer.from(`def${it}`)])),
  );
  const length = fc.oneof({ weight: 5, arbitrary: fc.constant(undefined) }, fc.integer({ min: 0, max: 0xffffff }));
  const part = fc
    .tuple(fc.integer({ min: 0, max: 12 }), body, length)
    .map(([sequence, it, claimed]) => message(sequence, it, claimed));
  const bytes = fc.array(part, { minLength: 1, maxLength: 8 }).map((all) => Buffer.concat(all));
  const lie = fc.record({
    at: fc.integer({ min: 0, max: 11 }),
    bytes: fc.array(bytes, { minLength: 1, maxLength: 4 }),
  });

  test('a MySQL server that lies in any message of the login or of an answer can only fail its call', async () => {
    await fc.assert(
      fc.asyncProperty(lie, async (it) => {
        const result = await ask(it);
        // What has the form of an answer is one.
        if (result.success) expect(result.data.rows.length).toBeLessThanOrEqual(1_000);
        else expect(result.error.code).not.toMatch(/^(INTERNAL|SANDBOX_UNAVAILABLE)$/);
      }),
      { numRuns: 150, endOnFailure: true },
    );
    expectNothingGiven();
    expect(await codeOf({ at: Number.POSITIVE_INFINITY, bytes: [] }, 10_000)).toBe('ok');
  }, 180_000);
});
