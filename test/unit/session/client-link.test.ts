/** A late subscriber gets missed and new messages in their original order. */
import { expect, test } from 'vitest';
import { defaultLimits } from '../../../src/limits.ts';
import { systemPowers } from '../../../src/powers.ts';
import { type ClientLink, subscribe } from '../../../src/session/client-link.ts';
import { Events } from '../../../src/session/events.ts';

test.each([
  ['what was missed comes before what happens next', 0, [1, 2, 3, 4, 5]],
  ['what happens next comes after the answer too where nothing was missed', undefined, [4, 5]],
])('%s', async (_, afterSeq, expected) => {
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
  const parts = { events, limits: defaultLimits };
  expect(subscribe(link, { topics: ['calls'], ...(afterSeq !== undefined && { afterSeq }) }, parts)).toMatchObject({
    seq: 3,
  });
  happen();
  expect(told).toEqual([]);
  await new Promise<void>((resolve) => powers.after(0, resolve));
  happen();
  expect(told).toEqual(expected);
});
