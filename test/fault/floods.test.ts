/** One client floods the daemon with short requests; everybody else is served in between. */
import { describe, expect, test } from 'vitest';
import { startDaemon } from '../support/daemon.ts';
import { RawPeer } from '../support/raw-peer.ts';

/** Short and slow to judge: each word may name ten paths, and each path is checked against every rule. */
const SLOW_LINE = `cat ${Array.from({ length: 92 }, (_, at) => `a=b:c,d@${at}`).join(' ')}`;
const input = { tool: 'terminal_execute', input: { command: SLOW_LINE } };
/** Requests of a flood in each of 8 sessions. */
const EACH = 120;
/** The most requests of a flood that are answered while another client waits for one answer; the median of several. */
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
    // Denied calls cost only their judging.
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
    // The flood has begun once it gets its first answer.
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
