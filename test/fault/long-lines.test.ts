/** Command lines that are slow to parse on purpose: only their sender waits. */
import { expect, test } from 'vitest';
import { machineLateMs } from '../support/arena.ts';
import { startDaemon } from '../support/daemon.ts';
import { RawPeer } from '../support/raw-peer.ts';

const SLOW = `ls ${'>f '.repeat(40_000)}`;
const explain = { method: 'policy.explain', params: { tool: 'terminal_execute', input: { command: SLOW } } };
const call = { method: 'tools.call', params: { tool: 'terminal_execute', input: { command: SLOW } } };

test('two hundred of them from twenty connections hold up nobody else', async () => {
  await using daemon = await startDaemon({ policy: 'version: 1\ntiers: { execute: { decision: deny } }\n' });
  await using operator = await daemon.connect({ role: 'operator' });
  await operator.request('status', {});
  const peers = Array.from({ length: 20 }, () => new RawPeer(daemon.socket));
  await Promise.all(peers.map((it) => it.hello()));
  for (const peer of peers) for (let id = 100; id < 110; id++) peer.send({ id, ...(id % 2 === 0 ? explain : call) });
  const took: number[] = [];
  // Once the first is answered, the others have arrived.
  await Promise.race(peers.map((it) => it.answer((answer) => Number(answer.id) >= 100)));
  for (let i = 0; i < 3; i++) {
    const startedAt = performance.now();
    await operator.request('status', {});
    took.push(performance.now() - startedAt);
  }
  const answered = peers.flatMap((it) => it.answers).filter((it) => Number(it.id) >= 100);
  expect(answered.length).toBeLessThan(200);
  expect(Math.max(...took)).toBeLessThan(1_000 + machineLateMs());
  for (const it of peers) it.socket.destroy();
}, 60_000);

test('more of one session than may wait are refused, and those before them are answered in turn', async () => {
  await using daemon = await startDaemon({ limits: { commandTurnsMax: 2 } });
  const peer = new RawPeer(daemon.socket);
  await peer.hello();
  // In one piece: else the first may be answered before the last is there.
  peer.socket.cork();
  for (let id = 100; id < 105; id++) peer.send({ id, ...explain });
  peer.socket.uncork();
  const codes: string[] = [];
  for (let id = 100; id < 105; id++)
    codes.push((await peer.answer((it) => it.id === id)).error?.data.code ?? 'answered');
  expect(codes).toEqual(['answered', 'answered', 'answered', 'OVERLOADED', 'OVERLOADED']);
  peer.socket.destroy();
});

test('large requests of one connection leave no room for those of another of the daemon', async () => {
  const policy = 'version: 1\ntiers: { execute: { decision: ask } }\n';
  await using daemon = await startDaemon({ policy, limits: { requestBytesMax: 200_000 } });
  const [first, second] = [new RawPeer(daemon.socket), new RawPeer(daemon.socket)];
  await Promise.all([first.hello(), second.hello()]);
  const stdin = 'x'.repeat(120_000);
  const large = { tool: 'terminal_execute', input: { command: 'cat; true $x', stdin }, options: { progress: true } };
  first.send({ id: 'large', method: 'tools.call', params: large });
  // Once a person is asked, the call has arrived.
  await first.answer((it) => it.method === 'call.update' && JSON.stringify(it.params).includes('blocked'));
  expect((await second.request('tools.call', large)).error?.data.code).toBe('OVERLOADED');
  expect((await second.request('status', {})).result).toBeDefined();
  first.socket.destroy();
  second.socket.destroy();
});
