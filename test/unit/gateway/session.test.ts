import { expect, test } from 'vitest';
import { defaultLimits, type Limits } from '../../../src/base/limits.ts';
import { silentLog, systemPowers } from '../../../src/base/powers.ts';
import { Session } from '../../../src/gateway/session.ts';
import { succeeded } from '../../../src/pipeline/outcome.ts';
import { builtinToolset } from '../../../src/tools/registry.ts';
import { policyOf } from '../../support/policy.ts';

/** A session whose calls only report that they ran. */
function sessionOf(limits: Partial<Limits> = {}, forgets = false): { session: Session; ran: string[] } {
  const ran: string[] = [];
  const policy = policyOf([]);
  const session = new Session({
    id: 's',
    secret: '',
    role: 'agent',
    principal: 'p',
    client: 'c 1',
    root: '/ws',
    workspace: '/w',
    policy: () => policy,
    withOpenings: (_, it) => it,
    toolset: builtinToolset(),
    run: async (call) => succeeded(ran.push(`${call.id} ${call.options.preview === true ? 'preview' : 'run'}`)),
    limits: { ...defaultLimits, ...limits },
    powers: systemPowers(silentLog),
    keeping: { earlierResult: () => undefined, recordStart() {}, recordEnd() {} },
    untrusted: { has: () => false, add() {}, carry() {} },
    forgets,
    congested: () => false,
    onUpdate() {},
    onOutput() {},
  });
  return { session, ran };
}

const input = { path: 'x', content: 'y' };
const conflict = (message: RegExp) => ({ error: { code: 'CONFLICT', message: expect.stringMatching(message) } });

test('an id never runs twice, not even after its result is forgotten', async () => {
  const { session, ran } = sessionOf({ sessionCallsKept: 2 });
  for (const callId of ['a', 'b', 'c']) await session.call('file_write', input, { callId });
  expect(session.get('a')).toBeUndefined();
  expect(await session.call('file_write', input, { callId: 'a' })).toMatchObject(conflict(/forgotten/));
  expect(await session.call('file_write', input, { callId: 'c' })).toMatchObject({ success: true });
  expect(ran).toEqual(['a run', 'b run', 'c run']);
});

test('a session whose calls nobody can ask for remembers those under way', async () => {
  const { session } = sessionOf({}, true);
  const running = session.call('file_write', input, { callId: 'a' });
  expect(session.get('a')).toMatchObject({ callId: 'a' });
  expect(await running).toMatchObject({ success: true });
  expect(session.get('a')).toBeUndefined();
  expect(session.list({ limit: 10 }, [])).toEqual({ calls: [] });
});

test('ids of calls that could change nothing make room for those of calls that could', async () => {
  const { session, ran } = sessionOf({ sessionCallsKept: 1, sessionCallIdsKept: 2 });
  await session.call('file_write', input, { callId: 'first' });
  for (let i = 0; i < 10; i++) await session.call('file_read', { path: 'x' }, { callId: `r${i}` });
  ran.length = 0;
  expect(await session.call('file_write', input, { callId: 'first' })).toMatchObject(conflict(/forgotten/));
  expect(await session.call('file_read', { path: 'x' }, { callId: 'r0' })).toMatchObject({ success: true });
  expect(ran).toEqual(['r0 run']);
});

test('however many calls a program makes, its session remembers those of its client', async () => {
  const { session, ran } = sessionOf({ sessionCallsKept: 2, sessionChildCallsKept: 3, sessionCallIdsKept: 4 });
  for (const callId of ['gone', 'a', 'b']) await session.call('file_write', input, { callId });
  session.leave();
  for (let i = 0; i < 20; i++) await session.call('file_write', input, { callId: `c${i}`, parentCallId: 'b' });
  expect(session.isFull).toBe(false);
  ran.length = 0;
  const kept = session.list({ limit: 100 }, []).calls.map(({ callId }) => callId);
  expect(kept).toEqual(['a', 'b', 'c17', 'c18', 'c19']);
  expect(await session.call('file_write', input, { callId: 'a' })).toMatchObject({ success: true });
  expect(await session.call('file_write', input, { callId: 'gone' })).toMatchObject(conflict(/forgotten/));
  expect(await session.call('file_write', input, { callId: 'c16' })).toMatchObject(conflict(/forgotten/));
  expect(ran).toEqual([]);
});

test('the result of a preview is never that of the call itself', async () => {
  const { session, ran } = sessionOf();
  expect(await session.call('file_write', input, { callId: 'a', preview: true })).toMatchObject({ success: true });
  expect(await session.call('file_write', input, { callId: 'a' })).toMatchObject(conflict(/another call/));
  expect(ran).toEqual(['a preview']);
});
