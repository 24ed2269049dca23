/** Peers that send invalid data, or don't read: dropped with the protocol's error, and nobody else notices. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { encode } from '../../src/wire/protocol/codec.ts';
import { startDaemon, type TestDaemon, until } from '../support/daemon.ts';
import { RawPeer } from '../support/raw-peer.ts';

let daemon: TestDaemon;
let peer: RawPeer;
beforeAll(async () => {
  daemon = await startDaemon({
    limits: { frameIdleMs: 300, helloTimeoutMs: 400, writeBufferBytesMax: 256 * 1024, connectionsMax: 20 },
  });
  writeFileSync(join(daemon.workspace, 'large.txt'), 'x'.repeat(1024 * 1024));
});
afterAll(() => daemon[Symbol.asyncDispose]());

/** Checks after each fault that another client is served normally. */
afterEach(async () => {
  peer.socket.destroy();
  await using other = await daemon.connect();
  expect(await other.call('file_list', {})).toMatchObject({ success: true });
  expect(daemon.process.exitCode).toBeNull();
});

const header = (length: number) => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(length);
  return bytes;
};
const framed = (payload: Buffer) => Buffer.concat([header(payload.length), payload]);
const rssMiB = () => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${daemon.pid}/status`, 'utf8'))?.[1]) / 1024;

test.each([
  ['2 GiB as length', header(2 ** 31), -32001],
  ['one byte more than the largest frame as length', header(16 * 1024 * 1024 + 1), -32001],
  ['0xc1', framed(Buffer.from([0xc1])), -32700],
  ['an empty frame', framed(Buffer.alloc(0)), -32700],
  ['an extension type', framed(Buffer.from([0xd4, 1, 1])), -32700],
  ['65 arrays in each other', framed(Buffer.alloc(65, 0x91)), -32700],
  ['an array of 2^32 - 1 elements', framed(Buffer.from([0xdd, 255, 255, 255, 255])), -32700],
  ['100 001 elements', framed(encode(Array.from({ length: 100_001 }, () => 0))), -32700],
  ['a key twice', framed(Buffer.from([0x82, 0xa1, 0x61, 1, 0xa1, 0x61, 2])), -32700],
  ['HTTP', Buffer.from('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n'), -32001],
])('%s is answered with its error, and the connection is closed', async (_, bytes, code) => {
  peer = new RawPeer(daemon.socket);
  peer.bytes(bytes);
  await peer.closed;
  expect(peer.answers).toMatchObject([{ id: null, error: { code } }]);
});

test('half a frame and no more is dropped after frameIdleMs', async () => {
  peer = new RawPeer(daemon.socket);
  await peer.hello();
  peer.bytes(Buffer.concat([header(100), Buffer.from('half')]));
  await peer.closed;
});

test('a peer that sends a byte at a time does not get more time', async () => {
  peer = new RawPeer(daemon.socket);
  await peer.hello();
  peer.bytes(header(1_000_000));
  const drip = setInterval(() => peer.bytes(Buffer.from('x')), 50);
  await peer.closed;
  clearInterval(drip);
});

test('a peer that never says hello is dropped', async () => {
  peer = new RawPeer(daemon.socket);
  await peer.closed;
});

test('an announced frame that does not come costs nothing', async () => {
  peer = new RawPeer(daemon.socket);
  const before = rssMiB();
  const peers = Array.from({ length: 10 }, () => new RawPeer(daemon.socket));
  for (const it of peers) it.bytes(header(16 * 1024 * 1024));
  await Promise.all(peers.map((it) => it.closed));
  expect(rssMiB() - before).toBeLessThan(32);
});

test('an input with 40 000 unknown parameters is refused without holding up others', async () => {
  peer = new RawPeer(daemon.socket);
  await peer.hello();
  await using other = await daemon.connect();
  const input = Object.fromEntries(Array.from({ length: 40_000 }, (_, i) => [`parameter${i}`, 0]));
  peer.send({ id: 100, method: 'tools.call', params: { tool: 'file_read', input } });
  const from = performance.now();
  expect(await other.call('file_list', {})).toMatchObject({ success: true });
  expect(performance.now() - from).toBeLessThan(1000);
  expect((await peer.answer((it) => it.id === 100)).result).toMatchObject({ error: { code: 'INPUT_INVALID' } });
});

test('a peer that never reads is no longer read from, and takes no more memory', async () => {
  peer = new RawPeer(daemon.socket);
  await peer.hello();
  peer.socket.pause();
  const before = rssMiB();
  for (let i = 0; i < 500; i++)
    peer.send({ id: `r${i}`, method: 'tools.call', params: { tool: 'file_read', input: { path: 'large.txt' } } });
  await using other = await daemon.connect();
  for (let i = 0; i < 50; i++) expect(await other.call('file_list', {})).toMatchObject({ success: true });
  expect(rssMiB() - before).toBeLessThan(256);
}, 60_000);

test('connections over the bound are not taken, and make room when they go', async () => {
  peer = new RawPeer(daemon.socket);
  const many = Array.from({ length: 40 }, () => new RawPeer(daemon.socket));
  const helloes = await Promise.allSettled(many.map((it) => it.hello()));
  const came = helloes.filter((it) => it.status === 'fulfilled' && it.value.result !== undefined);
  expect(came.length).toBeLessThanOrEqual(20);
  for (const it of many) it.socket.destroy();
  await until(async () => {
    const next = new RawPeer(daemon.socket);
    const answer = await next.hello().catch(() => undefined);
    next.socket.destroy();
    return answer?.result !== undefined;
  });
});

test('many requests that come in one piece are answered no faster than they are read', async () => {
  peer = new RawPeer(daemon.socket);
  await peer.hello();
  const input = { path: 'large.txt' };
  await peer.request('tools.call', { tool: 'file_read', input, options: { callId: 'large' } });
  await using other = await daemon.connect();
  const before = rssMiB();
  peer.socket.pause();
  const ask = (id: number) => framed(encode({ id: `f${id}`, method: 'calls.get', params: { callId: 'large' } }));
  peer.bytes(Buffer.concat(Array.from({ length: 300 }, (_, id) => ask(id))));
  for (let count = 0; count < 20; count++) await other.request('calls.list', {});
  // All answers together have 300 MiB.
  expect(rssMiB() - before).toBeLessThan(100);
  peer.socket.resume();
  expect(await peer.answer((it) => it.id === 'f299')).toMatchObject({ result: { callId: 'large' } });
}, 30_000);
