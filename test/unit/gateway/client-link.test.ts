/** A late subscriber gets missed and new messages in their original order. */
import { describe, expect, test } from 'vitest';
import { defaultLimits } from '../../../src/base/limits.ts';
import { systemPowers } from '../../../src/base/powers.ts';
import { type ClientLink, subscribe } from '../../../src/gateway/client-link.ts';
import { Events } from '../../../src/gateway/events.ts';
import { ManualPowers } from '../../support/audit.ts';

test.each([
  ['what was missed comes before what happens next', 0, [1, 2, 3, 4, 5]],
  ['what happens next comes after the answer too where nothing was missed', undefined, [4, 5]],
])('a late subscriber gets events in order: %s', async (_, afterSeq, expected) => {
  const events = new Events(10);
  const happen = () => events.publish({ topic: 'calls', sessionId: 's', method: 'call.update', params: {} });
  const told: unknown[] = [];
  const link = {
    session: { options: { role: 'agent', id: 's' } },
    outbox: { notify: (_method: string, { seq }: { seq: number }) => told.push(seq) },
    subscriptions: [],
  } as unknown as ClientLink;
  for (let i = 0; i < 3; i++) happen();
  const powers = systemPowers();
  const parts = { events, limits: defaultLimits, powers };
  expect(subscribe(link, { topics: ['calls'], ...(afterSeq !== undefined && { afterSeq }) }, parts)).toMatchObject({
    seq: 3,
  });
  happen();
  expect(told).toEqual([]);
  await new Promise<void>((resolve) => powers.after(0, resolve));
  happen();
  expect(told).toEqual(expected);
});

describe('a subscriber that takes the updates of calls every so often', () => {
  function subscribed(callUpdatesHeldMax = 10) {
    const events = new Events(10);
    const powers = new ManualPowers();
    const told: string[] = [];
    const link = {
      session: { options: { role: 'operator', id: 's' } },
      outbox: {
        notify: (method: string, { seq, callId = '' }: { seq: number; callId?: string }) =>
          told.push(`${seq} ${method} ${callId}`),
      },
      subscriptions: [],
    } as unknown as ClientLink;
    const limits = { ...defaultLimits, callUpdatesHeldMax };
    subscribe(link, { topics: ['calls', 'approvals'], everyMs: 100 }, { events, limits, powers });
    const change = (callId: string, sessionId = 's') =>
      events.publish({ topic: 'calls', sessionId, method: 'call.update', params: { callId } });
    const ask = () => events.publish({ topic: 'approvals', sessionId: 's', method: 'approval.requested', params: {} });
    return { powers, told, link, change, ask };
  }
  const begun = () => new Promise<void>((resolve) => setImmediate(resolve));

  test('gets the last of each call, in the order of their numbers', async () => {
    const { powers, told, change } = subscribed();
    await begun();
    for (const it of ['a', 'b', 'a']) change(it);
    change('a', 'other session');
    expect(told).toEqual([]);
    powers.fire(100);
    expect(told).toEqual(['2 call.update b', '3 call.update a', '4 call.update a']);
    powers.fire(100);
    expect(told).toHaveLength(3);
  });

  test('gets other events at once, after the updates before them', async () => {
    const { told, change, ask, powers } = subscribed();
    await begun();
    change('a');
    ask();
    expect(told).toEqual(['1 call.update a', '2 approval.requested ']);
    change('a');
    powers.fire(100);
    expect(told.at(-1)).toBe('3 call.update a');
  });

  test('gets all at once when many calls change, and nothing after its end', async () => {
    const { told, change, link, powers } = subscribed(2);
    await begun();
    for (const it of ['a', 'b', 'c']) change(it);
    expect(told).toHaveLength(3);
    change('d');
    for (const it of link.subscriptions) it[Symbol.dispose]();
    powers.fire(100);
    change('e');
    expect([told.length, powers.delays]).toEqual([3, []]);
  });
});
