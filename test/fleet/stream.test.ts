/** The sealed stream of one session: nobody on the bus can read or change it, and neither side can flood the other. */
import { buffer } from 'node:stream/consumers';
import { expect, test } from 'vitest';
import { defaultLimits } from '../../src/base/limits.ts';
import { FlowGate } from '../../src/fleet/placed/flow-gate.ts';
import { createSessionKeys, Sealing } from '../../src/fleet/placed/sealing.ts';
import { SessionStream } from '../../src/fleet/placed/stream.ts';

const WINDOW = 64 * 1024;
/** A connection whose server takes everything at once. */
const open = () => new FlowGate({ flushed: async () => {} }, defaultLimits.fleetUnflushedBytes);

function pair({ transcript = 'both' } = {}) {
  const [g, n] = [createSessionKeys(), createSessionKeys()];
  return [new Sealing('gateway', g, n.publicKey, 'both'), new Sealing('node', n, g.publicKey, transcript)] as const;
}

/** Two streams over a bus that hands on what it is told to. */
function joined(windowBytes = WINDOW, via = (data: Uint8Array, hand: (it: Uint8Array) => void) => hand(data)) {
  const [toNode, toGateway] = pair();
  const wire: Uint8Array[] = [];
  const gateway: SessionStream = new SessionStream({
    sealing: toNode,
    windowBytes,
    gate: open(),
    send: (data) => {
      wire.push(data);
      via(data, (it) => node.receive(it));
    },
  });
  const node: SessionStream = new SessionStream({
    sealing: toGateway,
    windowBytes,
    gate: open(),
    send: (data) => gateway.receive(data),
  });
  return { gateway, node, wire };
}

test('data from one side arrives whole and in order, however small the window', async () => {
  const { gateway, node, wire } = joined();
  const text = 'the quick brown fox '.repeat(50_000);
  gateway.end(text);
  expect((await buffer(node)).toString()).toBe(text);
  expect(Buffer.concat(wire).toString('latin1')).not.toContain('quick brown');
});

test('a side whose reader is slow stops the other at its window', async () => {
  const { gateway, node, wire } = joined();
  gateway.write(Buffer.alloc(1_000_000));
  await new Promise((resolve) => setImmediate(resolve));
  const sent = wire.reduce((sum, it) => sum + it.length, 0);
  expect(sent).toBeGreaterThanOrEqual(WINDOW);
  expect(sent).toBeLessThan(WINDOW + 4_096);
  gateway.destroy();
  node.destroy();
});

test('sessions of one connection wait together for a server that takes no more, and signs of life do not wait', async () => {
  const taken: (() => void)[] = [];
  const bytesMax = 2 * WINDOW;
  const gate = new FlowGate({ flushed: () => new Promise<void>((resolve) => taken.push(resolve)) }, bytesMax);
  let sent = 0;
  const streamOf = () =>
    new SessionStream({
      sealing: pair()[0],
      windowBytes: 10 * WINDOW,
      gate,
      send: (data) => {
        sent += data.length;
      },
    });
  const streams = [streamOf(), streamOf(), streamOf()];
  for (const it of streams) it.write(Buffer.alloc(3 * WINDOW));
  expect(sent).toBeGreaterThanOrEqual(bytesMax);
  expect(sent).toBeLessThan(bytesMax + WINDOW);
  const before = sent;
  streams[2]?.keepAlive();
  expect(sent).toBeGreaterThan(before);
  // The server takes what it has got, again and again.
  for (let turn = 0; turn < 20; turn++) {
    for (const it of taken.splice(0)) it();
    await new Promise((resolve) => setImmediate(resolve));
  }
  expect(sent).toBeGreaterThan(9 * WINDOW);
  for (const it of streams) it.destroy();
});

test('a side that sends more than it has room for is ended', async () => {
  const [own, other] = pair();
  const node = new SessionStream({ sealing: other, windowBytes: WINDOW, gate: open(), send: () => {} });
  const failed = new Promise<Error>((resolve) => node.once('error', resolve));
  for (let n = 0; n < 4; n++) node.receive(own.seal(Buffer.concat([Buffer.of(0), Buffer.alloc(30_000)])));
  expect((await failed).message).toContain(String(WINDOW));
});

test.each([
  ['changes', (it: Uint8Array) => [Buffer.from(it).fill(it[3] === 1 ? 2 : 1, 3, 4)]],
  ['drops', (it: Uint8Array, at: number) => (at === 0 ? [] : [it])],
  ['repeats', (it: Uint8Array) => [it, it]],
] as const)('a bus that %s a message ends the session', async (_, harm) => {
  let at = 0;
  const { gateway, node } = joined(WINDOW, (data, hand) => {
    for (const it of harm(data, at++)) hand(it);
  });
  const ended = new Promise<Error>((resolve) => node.once('error', resolve));
  gateway.write('first');
  gateway.write('second');
  expect((await ended).message).toBe('a message of the session was lost or changed');
  gateway.destroy();
});

test('sides that signed different things share no key', () => {
  const [own, other] = pair({ transcript: 'another' });
  expect(other.open(own.seal(Buffer.from('x')))).toBeUndefined();
  expect(other.open(Buffer.alloc(3))).toBeUndefined();
});
