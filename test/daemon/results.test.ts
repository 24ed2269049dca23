/** The output of commands through a real daemon: complete, paged, streamed, without secrets, and only for its session. */
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { buffer } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Client, OutputEntry } from '../../src/client/client.ts';
import { dataOf, processesWith, ringfence, startDaemon, type TestDaemon, until } from '../support/daemon.ts';
import { RawPeer } from '../support/raw-peer.ts';

const MiB = 1024 * 1024;
// Split, so that secret scanners do not find it here.
const token = ['ghp', '0123456789abcdefghijABCDEFGHIJ987654'].join('_');

let daemon: TestDaemon;
let client: Client;
let operator: Client;
beforeAll(async () => {
  daemon = await startDaemon();
  client = await daemon.connect();
  operator = await daemon.connect({ role: 'operator' });
});
afterAll(async () => {
  await client[Symbol.asyncDispose]();
  await operator[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});
const run = (command: string, settings: object = {}) => client.call('terminal_execute', { command }, settings);

interface Page {
  data: Uint8Array;
  bytesTotal: number;
  eof: boolean;
  entries: OutputEntry[];
  seq: number;
  state: { status: string };
  cut?: string;
}
const read = async (by: Client, params: object) => (await by.request('results.read', params)) as unknown as Page;

async function textOf(entries: AsyncIterable<OutputEntry>, stream?: string): Promise<string> {
  const parts: Uint8Array[] = [];
  for await (const entry of entries) if ((stream ?? entry.stream) === entry.stream) parts.push(entry.data);
  return Buffer.concat(parts).toString('latin1');
}

test('output of a call is read by its session, where two sessions have calls of one id', async () => {
  await using other = await daemon.connect();
  const callId = 'twice';
  await run('echo first', { callId });
  await other.call('terminal_execute', { command: 'echo second' }, { callId });
  const textFor = async (by: Client, session: string) =>
    Buffer.concat((await read(by, { callId, session, afterSeq: 0 })).entries.map((it) => it.data)).toString();
  const idOf = async (by: Client) => ((await by.request('calls.get', { callId })) as { sessionId: string }).sessionId;
  const [own, theirs] = [await idOf(client), await idOf(other)];
  expect(await textFor(operator, own)).toBe('first\n');
  expect(await textFor(operator, theirs)).toBe('second\n');
  expect(await textFor(client, own)).toBe('first\n');
  await expect(textFor(client, theirs)).rejects.toThrow('twice');
});

test('a MiB of bytes of every value is cut for the caller and read back whole, page by page', async () => {
  const octal = Array.from({ length: 256 }, (_, at) => `\\${at.toString(8).padStart(3, '0')}`).join('');
  const result = await run(`printf '${octal}' >b; for i in {1..12}; do cat b b >c; mv c b; done; cat b; rm b`);
  const { bytesTotal, ref } = result.metadata.truncated as { bytesTotal: number; ref: string };
  expect(bytesTotal).toBe(MiB);
  const pages: Uint8Array[] = [];
  for (let offset = 0; ; ) {
    const page = await read(client, { ref, offset });
    expect(page).toMatchObject({ ref, offset, bytesTotal: MiB });
    pages.push(page.data);
    offset += page.data.length;
    if (page.eof) break;
  }
  expect(pages.length).toBe(16);
  const block = Buffer.from(Array.from({ length: 256 }, (_, at) => at));
  expect(Buffer.concat(pages).equals(Buffer.alloc(MiB, block))).toBe(true);
  expect((await read(client, { ref, offset: 2 * MiB })).data.length).toBe(0);
});

test('output is read while it comes, waited for, and ends with its call', async () => {
  const running = run('echo one; until [ -e go ]; do sleep 0.01; done; echo two >&2; rm go', { callId: 'live' });
  const entries = client.output('live');
  const first = (await entries.next()).value as OutputEntry;
  expect([first.seq, first.stream, Buffer.from(first.data).toString()]).toEqual([1, 'stdout', 'one\n']);
  expect(await read(client, { callId: 'live', afterSeq: 1 })).toMatchObject({
    entries: [],
    seq: 1,
    eof: false,
    state: { status: 'in-progress' },
  });
  const waiting = read(client, { callId: 'live', afterSeq: 1, waitMs: 30_000 });
  await dataOf(client.call('file_write', { path: 'go', content: '' }));
  expect((await waiting).entries.map(({ seq, stream }) => [seq, stream])).toEqual([[2, 'stderr']]);
  expect(await textOf(entries)).toBe('two\n');
  await dataOf(running);
  expect(await read(client, { callId: 'live', afterSeq: 2 })).toMatchObject({ eof: true, state: { status: 'done' } });
});

test('a call without output ends its log as well', async () => {
  const running = run('until [ -e quiet ]; do sleep 0.01; done', { callId: 'quiet' });
  const waiting = read(client, { callId: 'quiet', afterSeq: 0, waitMs: 30_000 });
  await dataOf(client.call('file_write', { path: 'quiet', content: '' }));
  expect(await waiting).toMatchObject({ entries: [], eof: true, state: { status: 'done' } });
  await running;
});

test('progress has the numbers of the log, so that a piece that was missed can be read', async () => {
  const running = run('for i in {1..5}; do echo $i; sleep 0.02; done', { progress: true, callId: 'numbered' });
  const told: [number, string][] = [];
  for await (const it of running) if (it.kind === 'output') told.push([it.seq, Buffer.from(it.data).toString()]);
  expect(told.map(([seq]) => seq)).toEqual(told.map((_, at) => at + 1));
  const { entries } = await read(client, { callId: 'numbered', afterSeq: 2 });
  expect(entries.map(({ seq, data }) => [seq, Buffer.from(data).toString()])).toEqual(told.slice(2));
});

test('a reader whose connection ends goes on where it was', async () => {
  await dataOf(run('for i in {1..20}; do echo $i; sleep 0.005; done', { callId: 'resumed' }));
  const whole = await textOf(operator.output('resumed'));
  const reader = await daemon.connect({ role: 'operator' });
  const entries = reader.output('resumed');
  const first = (await entries.next()).value as OutputEntry;
  await reader[Symbol.asyncDispose]();
  const again = await daemon.connect({ role: 'operator' });
  const rest = await textOf(again.output('resumed', { afterSeq: first.seq }));
  await again[Symbol.asyncDispose]();
  expect(Buffer.from(first.data).toString('latin1') + rest).toBe(whole);
  expect(whole).toBe(Array.from({ length: 20 }, (_, at) => `${at + 1}\n`).join(''));
});

test('a secret that comes in pieces is in no file and no answer', async () => {
  const pieces = token
    .split('')
    .map((it) => `printf ${it}`)
    .join('; sleep 0.002; ');
  const { metadata } = await run(`${pieces}; echo; seq 1 20000`, { callId: 'secret' });
  const text = await textOf(client.output('secret'));
  // On a busy machine a pause between the first pieces releases them, before they are the beginning of a value.
  expect(text).toMatch(/^(?:g|gh|ghp|ghp_)?\[redacted:github-token\]\n1\n2\n/);
  const { ref } = metadata.truncated as { ref: string };
  const file = readFileSync(`${daemon.stateDir}/results/${ref}.log`);
  expect(file.includes('redacted:github-token')).toBe(true);
  for (const part of [token, token.slice(4, 16), token.slice(-12)]) expect(file.includes(part)).toBe(false);
});

describe('whose output it is', () => {
  test('no other session reads it, by call or by ref; an operator does, also after the session', async () => {
    const other = await daemon.connect();
    const running = other.call('terminal_execute', { command: 'seq 1 20000' }, { callId: 'mine' });
    const { ref } = (await running).metadata.truncated as { ref: string };
    for (const params of [{ callId: 'mine', afterSeq: 0 }, { ref }])
      await expect(read(client, params)).rejects.toMatchObject({
        code: -32602,
        message: expect.stringMatching(/this session has no output .*, or it is no longer kept/),
      });
    expect((await read(other, { ref, limit: 4 })).data).toEqual(Buffer.from('1\n2\n'));
    await other[Symbol.asyncDispose]();
    expect((await read(operator, { ref, limit: 4 })).data).toEqual(Buffer.from('1\n2\n'));
    expect(await textOf(operator.output('mine'))).toMatch(/\n20000\n$/);
  });

  test.each([
    ['both forms at once', { ref: 'r', callId: 'c', afterSeq: 0 }],
    ['neither form', {}],
    ['a call that is not there', { callId: 'never', afterSeq: 0 }],
    ['a ref that is none', { ref: '../../etc/passwd' }],
    ['an offset below 0', { ref: 'r', offset: -1 }],
  ])('%s is INVALID_PARAMS', async (_, params) => {
    await expect(read(client, params)).rejects.toMatchObject({ code: -32602 });
  });
});

test('the log of a command that ran out of time holds what the command wrote', async () => {
  const result = await client.call(
    'terminal_execute',
    { command: 'seq 1 20000; sleep 60', timeout: 1000 },
    { callId: 'late' },
  );
  expect(result).toMatchObject({ error: { code: 'TIMEOUT' }, metadata: { truncated: { ref: expect.any(String) } } });
  expect(await textOf(client.output('late'))).toMatch(/\n20000\n$/);
  expect(await read(client, { callId: 'late', afterSeq: 0 })).toMatchObject({ state: { status: 'error' } });
});

test('a reader that never reads costs the daemon no memory and the command no time', async () => {
  const rss = () => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${daemon.pid}/status`, 'utf8'))?.[1]) / 1024;
  const raw = new RawPeer(daemon.socket);
  await raw.hello({ workspace: daemon.workspace });
  await dataOf(run('yes | head -c 20M'));
  const [before, from] = [rss(), performance.now()];
  let peak = before;
  const looking = setInterval(() => {
    peak = Math.max(peak, rss());
  }, 10);
  raw.socket.pause();
  const input = { command: `exec -a marker-of-200-mib yes | head -c ${200 * MiB}; touch written` };
  raw.send({
    id: 99,
    method: 'tools.call',
    params: { tool: 'terminal_execute', input, options: { callId: 'big', progress: true } },
  });
  const ended = async () => (await read(operator, { callId: 'big', afterSeq: 2 ** 40 }).catch(() => undefined))?.eof;
  await until(async () => (await ended()) === true, 25_000);
  clearInterval(looking);
  process.stderr.write(
    `200 MiB: ${Math.round(performance.now() - from)} ms, RSS ${before.toFixed()} to ${peak.toFixed()} MiB\n`,
  );
  expect(peak - before).toBeLessThan(64);
  const last = await read(operator, { callId: 'big', afterSeq: 2 ** 40 });
  expect(last).toMatchObject({ cut: 'size', state: { status: 'done' } });
  raw.socket.resume();
  const { result } = await raw.answer((it) => it.id === 99);
  expect(result).toMatchObject({ success: true, metadata: { truncated: { bytesTotal: 200 * MiB } } });
  const numbers = raw.answers
    .filter((it) => it.method === 'call.output')
    .map((it) => (it.params as { seq: number }).seq);
  expect(numbers).toEqual([...numbers].sort((a, b) => a - b));
  raw.socket.destroy();
  expect(processesWith('marker-of-200-mib')).toEqual([]);
}, 60_000);

describe('ringfence logs', () => {
  async function logs(...args: string[]): Promise<{ code: number | null; stdout: Buffer; stderr: Buffer }> {
    const flags = ['--state', daemon.stateDir, '--socket', daemon.socket];
    const child = spawn(process.execPath, [ringfence, 'logs', ...args, ...flags], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const ended = new Promise<number | null>((resolve) => child.once('exit', resolve));
    const [stdout, stderr] = await Promise.all([buffer(child.stdout), buffer(child.stderr)]);
    return { code: await ended, stdout, stderr };
  }

  test('gives each stream as it was, byte by byte', async () => {
    await dataOf(run("printf '\\033[31m\\377\\000'; echo err >&2", { callId: 'raw' }));
    const { code, stdout, stderr } = await logs('raw');
    expect([code, stdout.toString('latin1'), stderr.toString()]).toEqual([0, '\x1b[31m\xff\0', 'err\n']);
  });

  test('--follow goes on to the end of the call, without it what is there is all', async () => {
    const running = run('echo early; until [ -e more ]; do sleep 0.01; done; echo late', { callId: 'followed' });
    await client.output('followed').next();
    expect((await logs('followed')).stdout.toString()).toBe('early\n');
    const following = logs('followed', '--follow');
    await dataOf(client.call('file_write', { path: 'more', content: '' }));
    expect((await following).stdout.toString()).toBe('early\nlate\n');
    await running;
  });

  test('ringfence logs of an unknown call fails and says why', async () => {
    const { code, stderr } = await logs('never');
    expect([code, stderr.toString()]).toEqual([1, expect.stringMatching(/no output never/)]);
  });
});
