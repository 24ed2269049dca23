import { expect, test } from 'vitest';
import { Outbox } from '../../../src/gateway/outbox.ts';
import type { Peer } from '../../../src/wire/protocol/peer.ts';

/** A peer that records messages, and becomes congested after a number of them. */
function listener(takes = Number.POSITIVE_INFINITY): { peer: Peer; heard: string[]; takeMore(more: number): void } {
  const heard: string[] = [];
  let left = takes;
  const peer = {
    closed: false,
    get congested() {
      return left <= 0;
    },
    notify(method: string, { seq }: { seq: number }) {
      left -= 1;
      heard.push(`${method} ${seq}`);
    },
  } as unknown as Peer;
  return { peer, heard, takeMore: (more) => (left = more) };
}

const opened = (resumeBufferBytes = 100_000): Outbox => new Outbox({ resumeBufferBytes });
const data = () => new Uint8Array(1000);

test('notices that no client was there for come in order, after the answer to hello and before new ones', () => {
  const outbox = opened();
  for (const seq of [1, 2, 3]) outbox.notify('call.update', { seq });
  const { peer, heard } = listener();
  expect(outbox.attach(peer)).toEqual({ notices: 3, dropped: 0 });
  outbox.notify('call.update', { seq: 4 });
  expect(heard).toEqual([]);
  outbox.release();
  outbox.notify('call.update', { seq: 5 });
  expect(heard).toEqual([1, 2, 3, 4, 5].map((it) => `call.update ${it}`));
});

test('an outbox over its bytes loses the oldest output first, and says how much', () => {
  const outbox = opened(5_000);
  outbox.notify('approval.resolved', { seq: 1 });
  for (const seq of [2, 3, 4, 5, 6]) outbox.notify('call.output', { seq, data: data() });
  outbox.notify('call.update', { seq: 7 });
  const { peer, heard } = listener();
  expect(outbox.attach(peer)).toEqual({ notices: 5, dropped: 2 });
  outbox.release();
  expect(heard).toEqual(['approval.resolved 1', 'call.output 4', 'call.output 5', 'call.output 6', 'call.update 7']);
});

test('without output to lose it loses the oldest, and never holds more than its bytes', () => {
  const outbox = opened(1_200);
  for (let seq = 1; seq <= 100; seq += 1) outbox.notify('call.update', { seq, state: { status: 'x'.repeat(100) } });
  const { peer, heard } = listener();
  expect(outbox.attach(peer)).toEqual({ notices: 2, dropped: 98 });
  outbox.release();
  expect(heard).toEqual(['call.update 99', 'call.update 100']);
  outbox.detach();
  outbox.notify('call.output', { seq: 101, data: new Uint8Array(2_000) });
  expect(outbox.attach(peer)).toEqual({ notices: 0, dropped: 1 });
});

test('a peer that does not take all of it gets the rest when it reads on', () => {
  const outbox = opened();
  for (const seq of [1, 2, 3, 4]) outbox.notify('call.update', { seq });
  const { peer, heard, takeMore } = listener(2);
  outbox.attach(peer);
  outbox.release();
  outbox.notify('call.update', { seq: 5 });
  expect(heard.length).toBe(2);
  takeMore(10);
  outbox.release();
  expect(heard).toEqual([1, 2, 3, 4, 5].map((it) => `call.update ${it}`));
});

test('output that waits is a copy: the frame that it came in may be used again', () => {
  const outbox = opened();
  const bytes = Buffer.from('first');
  outbox.notify('call.output', { seq: 1, data: bytes });
  bytes.fill(0);
  const said: string[] = [];
  const peer = {
    closed: false,
    congested: false,
    notify: (_: string, it: { data: Buffer }) => said.push(it.data.toString()),
  };
  outbox.attach(peer as unknown as Peer);
  outbox.release();
  expect(said).toEqual(['first']);
});

test('a closed one tells nobody', () => {
  const outbox = opened();
  const { peer, heard } = listener();
  outbox.attach(peer);
  outbox.release();
  outbox.close();
  outbox.notify('call.update', { seq: 1 });
  expect(heard).toEqual([]);
});
