import { statSync } from 'node:fs';
import * as fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { RpcError, ToolError } from '../../../../src/base/errors.ts';
import type { Limits } from '../../../../src/base/limits.ts';
import type { ApprovalDraft, Impact, PersonAnswer, RememberScope } from '../../../../src/store/approvals/approval.ts';
import { draft, Machine } from '../../../support/approvals.ts';

let machine: Machine;
beforeEach(() => {
  machine = new Machine();
});
afterEach(() => machine[Symbol.dispose]());

/** A new machine with an empty store. */
function startAnew(limits: Partial<Limits> = {}): void {
  machine[Symbol.dispose]();
  machine = new Machine(limits);
}

/** A call that asks; `id` is set at once, since the question is stored synchronously. */
function ask(part: Partial<ApprovalDraft> = {}) {
  const controller = new AbortController();
  let id = '';
  const answer = machine.approvals.request(draft(part), {
    signal: controller.signal,
    onRequested: (approval) => {
      id = approval.approvalId;
    },
  });
  answer.catch(() => {});
  return { id, answer, abort: (reason: ToolError) => controller.abort(reason) };
}

const yes = (id: string, remember?: RememberScope) =>
  machine.approvals.resolve(id, { decision: 'approve', by: 'ann', ...(remember && { remember }) });
const no = (id: string, feedback?: string, remember?: RememberScope) =>
  machine.approvals.resolve(id, { decision: 'deny', by: 'ann', feedback, ...(remember && { remember }) });
const code = (answer: Promise<PersonAnswer>) => answer.then(() => 'answered').catch((error: ToolError) => error.code);
const impact = (level: Impact['level']): Impact => ({ level, description: '', warnings: [] });
const stateOf = (id: string) => {
  try {
    machine.approvals.resolve(id, { decision: 'deny', by: 'probe' });
    return 'pending';
  } catch (error) {
    return (error as RpcError).data.state;
  }
};

describe('a question', () => {
  test('a question is in the store, readable by its owner only, before it is announced', () => {
    let listed: string[] = [];
    const never = machine.approvals.request(draft(), {
      signal: new AbortController().signal,
      onRequested: () => {
        machine.killAndRestart();
        listed = machine.approvals.list().map((it) => it.approvalId);
      },
    });
    never.catch(() => {});
    expect(listed).toEqual([expect.stringMatching(/^a_[0-9a-f]{12}$/)]);
    expect(statSync(machine.path).mode & 0o777).toBe(0o600);
  });

  test('a question is shown with the fields of the protocol and without those that only the store needs', () => {
    ask({ costUsd: 0.5, diff: '-a\n+b' });
    expect(Object.keys(machine.approvals.list()[0] as object).toSorted()).toEqual(
      [
        ...[
          'approvalId',
          'callId',
          'costUsd',
          'diff',
          'effects',
          'expiresAt',
          'impact',
          'input',
          'principal',
          'reason',
        ],
        ...['remember', 'requestedAt', 'rule', 'sessionId', 'tool', 'workspace'],
        ...['client', 'cwd', 'digest', 'parents', 'rememberMaxMs'],
      ].toSorted(),
    );
  });

  test('a question that another call asks by now has another digest, and an answer to the old one is refused', async () => {
    const first = ask();
    const digest = machine.approvals.list()[0]?.digest as string;
    expect(machine.approvals.whole(first.id).approval.digest).toBe(digest);
    first.abort(new ToolError('APPROVAL_TIMEOUT', 'parked', { details: { pending: true } }));
    const second = ask({ callId: 'c2', sessionId: 's2', client: 'another 2' });
    expect(second.id).toBe(first.id);
    const [now] = machine.approvals.list();
    expect(now).toMatchObject({ sessionId: 's2', client: 'another 2', digest: expect.not.stringMatching(digest) });
    expect(() => machine.approvals.resolve(second.id, { decision: 'approve', by: 'ann', digest })).toThrow(
      'is not what was shown any more',
    );
    machine.approvals.resolve(second.id, { decision: 'approve', by: 'ann', digest: now?.digest });
    expect(await second.answer).toMatchObject({ decision: 'approve' });
  });

  test('a cut question is kept whole while it waits, across a restart, and no longer', () => {
    const whole = { input: { path: 'a', content: 'all of it' }, effects: [{ kind: 'write', target: 'a' }] } as const;
    const { id } = ask({ truncated: true, whole, proposedRule: 'id: r' });
    machine.killAndRestart();
    expect(machine.approvals.whole(id)).toMatchObject({ approval: { truncated: true }, whole, proposedRule: 'id: r' });
    expect(machine.approvals.list()[0]).not.toHaveProperty('whole');
    no(id);
    expect(() => machine.approvals.whole(id)).toThrow('no longer waits');
  });

  test('an approved question gives the answer, and is used once and not twice', async () => {
    const { id, answer } = ask();
    yes(id);
    expect(await answer).toEqual({ approvalId: id, decision: 'approve', by: 'ann' });
    machine.approvals.use(id, 'b1');
    expect(() => machine.approvals.use(id, 'b1')).toThrow('is already used');
    expect(machine.told()).toEqual(['requested', 'approve', 'used']);
  });

  test('a question that is approved for one thing is not used for another', () => {
    const { id } = ask();
    yes(id);
    expect(() => machine.approvals.use(id, 'b2')).toThrow(expect.objectContaining({ code: 'APPROVAL_STALE' }));
  });

  test('a denied question gives the feedback, and is never used', async () => {
    const { id, answer } = ask();
    no(id, 'use the other file');
    expect(await answer).toEqual({ approvalId: id, decision: 'deny', by: 'ann', feedback: 'use the other file' });
    expect(() => machine.approvals.use(id, 'b1')).toThrow('is already denied');
  });

  test('expires, at its time and not before', async () => {
    const { id, answer } = ask();
    machine.advance(299_999);
    expect(machine.approvals.pendingCount).toBe(1);
    machine.advance(1);
    expect(await code(answer)).toBe('APPROVAL_TIMEOUT');
    expect(() => yes(id)).toThrow(/no longer waits: it was expired at 2030-01-01T00:05:00.000Z by ringfence/);
    expect(machine.told()).toEqual(['requested', 'expired']);
  });

  test('an approved question can be used for as long as it could be answered', () => {
    const { id } = ask();
    machine.advance(299_000);
    yes(id);
    machine.advance(299_999);
    machine.approvals.use(id, 'b1');
    const other = ask();
    yes(other.id);
    machine.advance(300_000);
    expect(() => machine.approvals.use(other.id, 'b1')).toThrow('has expired');
  });

  test.each(['CANCELLED', 'TIMEOUT'] as const)(
    'a question of a call that ends with %s is withdrawn',
    async (reason) => {
      const { id, answer, abort } = ask();
      abort(new ToolError(reason, 'over'));
      expect(await code(answer)).toBe(reason);
      expect(() => yes(id)).toThrow('it was withdrawn');
      expect(machine.told()).toEqual(['requested', 'withdrawn']);
    },
  );

  test('a question of a daemon that shuts down stays for the next one', async () => {
    const { id, answer, abort } = ask();
    abort(new ToolError('SHUTTING_DOWN', 'over'));
    expect(await code(answer)).toBe('SHUTTING_DOWN');
    machine.killAndRestart();
    expect(machine.approvals.list().map((it) => it.approvalId)).toEqual([id]);
  });

  test('a question is answered once, and a second answer is refused with the first one', () => {
    const { id } = ask();
    yes(id);
    expect(() => no(id)).toThrow(/was approved at .* by ann/);
    expect(() => yes('a_none')).toThrow('there is no approval a_none; approvals.list lists those that wait');
    expect(() => yes(id)).toThrow(expect.objectContaining({ code: 'INVALID_PARAMS' }));
  });

  test('a question whose listener throws is asked all the same', () => {
    machine.events.push = () => {
      throw new Error('listener');
    };
    expect(ask().id).not.toBe('');
  });
});

describe('after kill -9', () => {
  test('a pending question is listed, and its answer is used by the same call made again', async () => {
    const { id } = ask();
    machine.killAndRestart();
    expect(machine.approvals.pendingCount).toBe(1);
    yes(id);
    expect(machine.approvals.isAnswered({ ...draft(), level: 'medium' })).toBe(true);
    const again = machine.approvals.request(draft({ callId: 'c2', sessionId: 's2' }), {
      signal: new AbortController().signal,
    });
    expect(await again).toMatchObject({ approvalId: id, decision: 'approve' });
    machine.approvals.use(id, 'b1');
    expect(machine.approvals.get(id)).toMatchObject({ callId: 'c2', sessionId: 's2' });
  });

  test('the same call made again waits for the question that is there', async () => {
    const { id } = ask();
    machine.killAndRestart();
    machine.told();
    const again = ask({ callId: 'c2', sessionId: 's2' });
    expect(again.id).toBe(id);
    expect(machine.approvals.list()).toHaveLength(1);
    yes(id);
    expect((await again.answer).decision).toBe('approve');
    expect(machine.told()).toEqual(['attached', 'approve']);
  });

  test.each([
    ['input', { bindingHash: 'b2' }],
    ['principal', { principal: 'uid:2' }],
    ['workspace', { workspace: '/other' }],
  ])('a call of another %s asks anew', (_, part) => {
    const { id } = ask();
    machine.killAndRestart();
    expect(ask(part).id).not.toBe(id);
  });

  test('a question expires when its time has come, also where that was meanwhile', () => {
    const { id } = ask();
    machine.killAndRestart();
    machine.advance(300_000);
    expect(stateOf(id)).toBe('expired');
    const late = ask();
    machine.advance(0);
    machine.killAndRestart();
    machine.advance(300_001);
    expect(machine.approvals.list()).toEqual([]);
    expect(stateOf(late.id)).toBe('expired');
  });

  test('a used answer is not used again', () => {
    const { id } = ask();
    yes(id);
    machine.approvals.use(id, 'b1');
    machine.killAndRestart();
    expect(() => machine.approvals.use(id, 'b1')).toThrow('is already used');
    expect(ask().id).not.toBe(id);
  });
});

test('two calls at once that are the same need two answers', async () => {
  const [a, b] = [ask(), ask({ callId: 'c2' })];
  expect(a.id).not.toBe(b.id);
  yes(a.id);
  machine.approvals.use(a.id, 'b1');
  expect(machine.approvals.list().map((it) => it.approvalId)).toEqual([b.id]);
});

test('a yes that its call did not use goes to the same call made again, unless the call was cancelled', async () => {
  const { id } = ask();
  yes(id);
  machine.approvals.release(id, { withdraw: false });
  expect((await machine.approvals.request(draft(), { signal: new AbortController().signal })).approvalId).toBe(id);
  machine.approvals.release(id, { withdraw: true });
  expect(ask().id).not.toBe(id);
});

describe('a remembered answer', () => {
  const session = (match: RememberScope['match']): RememberScope => ({ scope: 'session', match });
  const covered = (part: Partial<ApprovalDraft> & { level?: Impact['level'] } = {}) =>
    machine.approvals.remembered({ level: 'medium', ...draft(part), ...part } as never, 'c9')?.decision;

  test.each([
    ['exact', {}, 'approve'],
    ['exact', { subjectHash: 'j2' }, undefined],
    ['tool', { subjectHash: 'j2' }, 'approve'],
    ['tool', { tool: 'file_list' }, undefined],
    ['rule', { tool: 'file_list', subjectHash: 'j2' }, 'approve'],
    ['rule', { askingRules: ['r2'], rule: 'r2' }, undefined],
    ['tool', { level: 'low' }, 'approve'],
    ['tool', { level: 'high' }, undefined],
    ['exact', { level: 'high' }, undefined],
    ['tool', { unknown: true }, undefined],
    ['tool', { askingRules: ['r1', 'r2'] }, undefined],
    ['tool', { policyVersion: 'p2' }, undefined],
    ['tool', { sessionId: 's2' }, undefined],
    ['tool', { principal: 'uid:2' }, undefined],
    ['tool', { workspace: '/other' }, undefined],
  ] as const)('yes to %s, of a call with %o: %s', (match, part, expected) => {
    yes(ask().id, session(match));
    expect(covered(part as Partial<ApprovalDraft>)).toBe(expected);
  });

  test('no covers higher impact, unknown parts and other policies too', () => {
    no(ask().id, 'never', session('tool'));
    expect(covered({ level: 'high', unknown: true, policyVersion: 'p2' })).toBe('deny');
  });

  test('a remembered no wins over a remembered yes', () => {
    const [a, b] = [ask(), ask({ subjectHash: 'j2', bindingHash: 'b2' })];
    no(a.id, undefined, session('exact'));
    yes(b.id, session('tool'));
    expect([covered(), covered({ subjectHash: 'j2' })]).toEqual(['deny', 'approve']);
  });

  test('an answer for the session ends with it, and with the daemon; one for always survives both', () => {
    yes(ask().id, session('tool'));
    machine.approvals.endSession('s1');
    expect(covered()).toBeUndefined();
    yes(ask({ bindingHash: 'b2' }).id, { scope: 'always', match: 'tool' });
    machine.approvals.endSession('s1');
    machine.killAndRestart();
    expect(covered({ sessionId: 's2' })).toBe('approve');
  });

  test('ends at its time, which the policy bounds', () => {
    const { id } = ask();
    const always = { scope: 'always', match: 'tool' } as const;
    expect(() => yes(id, { ...always, expiresMs: 28_800_001 })).toThrow('remembered for 1 to 28800000 ms');
    expect(machine.approvals.list()).toHaveLength(1);
    yes(id, { ...always, expiresMs: 1000 });
    machine.advance(999);
    expect(covered()).toBe('approve');
    machine.advance(1);
    expect(covered()).toBeUndefined();
    expect(machine.approvals.grants()).toEqual([]);
    const forbidden = ask({ bindingHash: 'b3', rememberMaxMs: 0 });
    expect(() => yes(forbidden.id, session('tool'))).toThrow('may not be remembered');
  });

  test('an answer for always comes with the rule for the policy file, and holds until the policy changes', () => {
    const { id } = ask({ proposedRule: '- id: mine' });
    const { proposedRule, grant } = yes(id, { scope: 'always', match: 'tool' });
    expect(proposedRule).toBe('- id: mine');
    expect((grant?.expiresAtMs as number) - machine.now).toBe(28_800_000);
    expect([covered(), covered({ policyVersion: 'p2' })]).toEqual(['approve', undefined]);
  });

  test('settles what waits and is covered by it, and nothing else', async () => {
    const others = [
      ask({ subjectHash: 'j2', bindingHash: 'b2' }),
      ask({ subjectHash: 'j3', bindingHash: 'b3', impact: impact('high') }),
      ask({ tool: 'file_list', bindingHash: 'b4' }),
    ] as const;
    const { alsoSettled, grant } = yes(ask().id, session('tool'));
    expect(alsoSettled).toEqual([others[0].id]);
    expect(await others[0].answer).toMatchObject({ decision: 'approve', by: `grant ${grant?.grantId}` });
    expect(machine.approvals.list().map((it) => it.approvalId)).toEqual([others[1].id, others[2].id]);
    expect(no(others[2].id, 'no', session('rule')).alsoSettled).toEqual([others[1].id]);
    expect(await others[1].answer).toMatchObject({ decision: 'deny', feedback: 'no' });
  });

  test('a remembered answer is reported when given, used and revoked; a revoked one covers no call', () => {
    const { grant } = yes(ask().id, session('tool'));
    covered();
    machine.approvals.revoke(grant?.grantId as string, 'uid:0');
    expect(covered()).toBeUndefined();
    expect(machine.told()).toEqual(['requested', 'approve', 'granted', 'grant-used', 'revoked']);
    expect(() => machine.approvals.revoke('g_none', 'uid:0')).toThrow('no remembered answer has the id g_none');
  });

  test('a remembered answer beyond grantsMax is refused, and the question still waits', () => {
    startAnew({ grantsMax: 1 });
    yes(ask().id, session('exact'));
    const { id } = ask({ subjectHash: 'j2', bindingHash: 'b2' });
    expect(() => yes(id, session('exact'))).toThrow('1 answers are already remembered');
    expect(machine.approvals.list().map((it) => it.approvalId)).toEqual([id]);
  });
});

describe('the prompt limiter', () => {
  const askMany = (count: number, part: (at: number) => Partial<ApprovalDraft>) =>
    Array.from({ length: count }, (_, at) => ask({ bindingHash: `b${at}`, subjectHash: `j${at}`, ...part(at) }));

  test('lets a session have 16 questions at once; the 17th is RATE_LIMITED and others ask on', async () => {
    askMany(16, () => ({}));
    const error = await ask({ bindingHash: 'b17' }).answer.catch((it: ToolError) => it.toWire());
    expect(error).toMatchObject({ code: 'RATE_LIMITED', layer: 'approval', details: { retryAfterMs: 5000 } });
    expect(ask({ sessionId: 's2', bindingHash: 'b18' }).id).not.toBe('');
  });

  test('lets a session ask 30 times a minute, answered or not, and says when it may again', async () => {
    for (const { id } of askMany(30, () => ({}))) if (id !== '') machine.advance(1000);
    for (let at = 0; at < 40; at++) {
      const { id } = ask({ bindingHash: `n${at}`, sessionId: 's3', subjectHash: `n${at}` });
      if (id !== '') no(id);
    }
    const error = await ask({ bindingHash: 'x', sessionId: 's3' }).answer.catch((it: ToolError) => it.toWire());
    expect(error).toMatchObject({ code: 'RATE_LIMITED', details: { retryAfterMs: 60_000 } });
    machine.advance(60_000);
    expect(ask({ bindingHash: 'y', sessionId: 's3' }).id).not.toBe('');
  });

  test('counts what a principal asks over all its sessions', async () => {
    const asked = askMany(130, (at) => ({ sessionId: `s${at}` }));
    expect(asked.filter(({ id }) => id !== '')).toHaveLength(120);
    expect(ask({ principal: 'uid:2', bindingHash: 'z' }).id).not.toBe('');
  });

  test('bounds what waits over all, restarts included', () => {
    startAnew({ approvalsPendingAllMax: 2 });
    askMany(2, (at) => ({ sessionId: `s${at}` }));
    machine.killAndRestart();
    expect(ask({ sessionId: 'new', bindingHash: 'new' }).id).toBe('');
  });

  test('answers the very call that was denied with the same feedback for a minute', () => {
    no(ask().id, 'no, really');
    expect(machine.approvals.deniedLately({ ...draft(), level: 'medium' })?.feedback).toBe('no, really');
    expect(machine.approvals.deniedLately({ ...draft({ subjectHash: 'j2' }), level: 'medium' })).toBeUndefined();
    machine.advance(60_000);
    expect(machine.approvals.deniedLately({ ...draft(), level: 'medium' })).toBeUndefined();
  });
});

test('answered approvals are forgotten, the oldest first, and open ones never', () => {
  startAnew({ approvalsKept: 2 });
  const open = ask();
  const ids = [1, 2, 3, 4].map((at) => {
    const { id } = ask({ bindingHash: `k${at}`, subjectHash: `k${at}` });
    no(id);
    return id;
  });
  expect(ids.map((id) => machine.approvals.get(id) !== undefined)).toEqual([false, false, true, true]);
  expect(machine.approvals.get(open.id)).toBeDefined();
});

test('whatever happens in whatever order, a yes leads to at most one run, and nothing runs without one', async () => {
  const which = fc.nat(2);
  const step = fc.oneof(
    { weight: 4, arbitrary: fc.record({ do: fc.constant('ask' as const), what: fc.nat(1) }) },
    { weight: 4, arbitrary: fc.record({ do: fc.constant('approve' as const), which }) },
    { weight: 6, arbitrary: fc.record({ do: fc.constant('run' as const), which, release: fc.boolean() }) },
    { weight: 3, arbitrary: fc.record({ do: fc.constantFrom('deny', 'cancel', 'stop'), which }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('wait' as const), ms: fc.constantFrom(1, 150_000, 300_000) }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('kill' as const) }) },
  );
  const property = fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 40, size: 'max' }), async (steps) => {
    startAnew();
    const calls: { hash: string; answer?: PersonAnswer; abort: (reason: ToolError) => void }[] = [];
    const yeses: string[] = [];
    const runs: string[] = [];
    const attempt = (work: () => void) => {
      try {
        work();
        return true;
      } catch (error) {
        if (error instanceof RpcError || error instanceof ToolError) return false;
        throw error;
      }
    };
    for (const it of steps) {
      const pending = machine.approvals.list();
      if (it.do === 'ask') {
        const { answer, abort } = ask({ bindingHash: `b${it.what}`, subjectHash: `j${it.what}` });
        const call: (typeof calls)[number] = { hash: `b${it.what}`, abort };
        void answer.then((given) => Object.assign(call, { answer: given })).catch(() => {});
        calls.push(call);
      } else if (it.do === 'wait') machine.advance(it.ms);
      else if (it.do === 'kill') {
        machine.killAndRestart();
        calls.length = 0;
      } else if (it.do === 'approve' || it.do === 'deny') {
        const id = pending[it.which % Math.max(1, pending.length)]?.approvalId ?? 'a_none';
        if (attempt(() => (it.do === 'approve' ? yes(id) : no(id))) && it.do === 'approve') yeses.push(id);
      } else {
        const call = calls[it.which % Math.max(1, calls.length)];
        if (it.do === 'run' && call?.answer) {
          const { approvalId } = call.answer;
          if (attempt(() => machine.approvals.use(approvalId, call.hash))) runs.push(approvalId);
          if (it.release) machine.approvals.release(approvalId, { withdraw: false });
        } else call?.abort(new ToolError(it.do === 'stop' ? 'SHUTTING_DOWN' : 'CANCELLED', 'over'));
      }
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(new Set(runs).size).toBe(runs.length);
    expect(runs.filter((id) => !yeses.includes(id))).toEqual([]);
    expect(new Set(yeses).size).toBe(yeses.length);
  });
  await fc.assert(property, { numRuns: 60 });
});
