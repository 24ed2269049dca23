/** One client asks for as much as it can, in short requests; everybody else is served between them. */
import { describe, expect, test } from 'vitest';
import { startDaemon } from '../support/daemon.ts';
import { RawPeer } from '../support/raw-peer.ts';

/** Short, and slow to judge: each word may name ten paths, each of which is held against every rule. */
const SLOW_LINE = `cat ${Array.from({ length: 92 }, (_, at) => `a=b:c,d@${at}`).join(' ')}`;
const input = { tool: 'terminal_execute', input: { command: SLOW_LINE } };
/** Of these a flood has, in each of 8 sessions. */
const EACH = 60;
/** Requests of a flood that may be answered while somebody else waits for one answer, as the median of several. */
const BETWEEN = 64;

const many = (method: string, params: object) => (peers: readonly RawPeer[]) => {
  for (const it of peers) for (let id = 0; id < EACH; id++) it.send({ id: `f${id}`, method, params });
};

describe.each([
  ['policy.explain', many('policy.explain', input)],
  ['tools.call', many('tools.call', input)],
  ['tools.list', many('tools.list', {})],
  [
    'tools.batch',
    (peers: readonly RawPeer[]) => {
      const calls = Array.from({ length: 2 * EACH }, (_, at) => ({ id: `f${at}`, ...input }));
      for (const it of peers.slice(0, 4))
        it.send({ id: 'batch', method: 'tools.batch', params: { calls, options: { progress: true } } });
    },
  ],
])('under a flood of %s', (_, flood) => {
  test('others are answered between its requests', async () => {
    // Denied calls cost nothing but their judging.
    await using daemon = await startDaemon({ policy: 'extends: default\ntiers: { execute: { decision: deny } }\n' });
    await using client = await daemon.connect();
    await client.request('calls.list', {});
    const peers = Array.from({ length: 8 }, () => new RawPeer(daemon.socket));
    await Promise.all(peers.map((it) => it.hello()));
    const heard = () => peers.reduce((sum, it) => sum + it.answers.length, 0);
    const before = heard();
    flood(peers);
    const between: Record<string, number[]> = { list: [], hello: [] };
    const probe = async (name: string, run: () => Promise<unknown>) => {
      const from = heard();
      await run();
      between[name]?.push(heard() - from);
    };
    // From its first answer on it is under way.
    await Promise.race(
      peers.map((it) => it.answer(({ id, method }) => String(id).startsWith('f') || method === 'batch.update')),
    );
    for (let i = 0; i < 5; i++) {
      await probe('list', () => client.request('calls.list', { limit: 1 }));
      await probe('hello', async () => {
        const peer = new RawPeer(daemon.socket);
        await peer.hello();
        peer.socket.destroy();
      });
    }
    expect(heard() - before, 'the flood was over too early').toBeLessThan(8 * EACH);
    for (const [name, all] of Object.entries(between))
      expect([name, all.toSorted((a, b) => a - b)[2]]).toEqual([name, expect.toSatisfy((it) => it <= BETWEEN)]);
    for (const it of peers) it.socket.destroy();
  }, 120_000);
});
