import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import * as z from 'zod';
import type { CallState, Decision, Effect } from '../../../../src/base/call.ts';
import { ToolError } from '../../../../src/base/errors.ts';
import { defaultLimits } from '../../../../src/base/limits.ts';
import { type ApproveDeps, approve } from '../../../../src/pipeline/approve/approve.ts';
import { succeeded } from '../../../../src/pipeline/outcome.ts';
import type { ClearedCall, JudgedCall } from '../../../../src/pipeline/stage.ts';
import type { ParsedCommand, PolicyQuestion } from '../../../../src/policy/question.ts';
import type { ApprovalSettings, Policy } from '../../../../src/policy/schema.ts';
import { defineTool } from '../../../../src/tools/tool.ts';
import { Machine } from '../../../support/approvals.ts';

const tool = defineTool({
  capabilities: [{ action: 'act', description: 'Acts.' }],
  name: 'terminal_execute',
  title: 't',
  summary: 's',
  version: '1',
  category: 'development',
  tier: 'execute',
  input: z.object({ command: z.string() }),
  output: z.object({}),
  examples: [],
  aliases: [],
  effects: () => [],
  commandOf: ({ command }) => ({ command, cwd: '.', env: {} }),
  run: async () => ({}),
});

const git: ParsedCommand = {
  commands: [
    { text: 'git fetch', words: ['git', 'fetch'], program: 'git', programPath: '/usr/bin/git', unknown: undefined },
  ],
  redirects: [],
  mentions: [],
  unknown: [],
};

/** The state that an approval is bound to, which tests change secretly. */
let world: {
  policyVersion: string;
  ino: string | undefined;
  hash: string | null;
  programPath: string;
  approvers: number;
  complete: boolean;
  previewed?: () => void;
};
let machine: Machine;
let runs: string[];

beforeEach(() => {
  machine = new Machine();
  world = { policyVersion: 'p1', ino: '1', hash: 'h1', programPath: '/usr/bin/git', approvers: 1, complete: true };
  runs = [];
});
afterEach(() => machine[Symbol.dispose]());

const deps: ApproveDeps = {
  limits: defaultLimits,
  approvers: () => world.approvers,
  redact: (value) => JSON.parse(JSON.stringify(value).replaceAll('hunter2', '[secret]')),
  preview: async () => {
    world.previewed?.();
    return { preImages: [{ path: 'a.txt', hash: world.hash }], diff: '+hunter2' };
  },
  context: async () => ({ states: [], complete: world.complete }),
  questionNow: () => question({ commands: [{ ...git.commands[0], programPath: world.programPath } as never] }),
  fingerprint: (path) =>
    world.ino === undefined ? undefined : { path, dev: '1', ino: world.ino, size: '1', mtimeNs: '1', ctimeNs: '1' },
  proposeRule: () => '- id: mine',
  openingOf: async () => undefined,
};

function question(command: Partial<ParsedCommand> = {}): PolicyQuestion {
  return {
    tool: tool.name,
    aliases: [],
    tier: 'execute',
    category: 'development',
    destructive: false,
    effects: [],
    command: { ...git, ...command },
    principal: 'uid:1',
    session: 's1',
    home: '/home/x',
  };
}

interface Shape {
  readonly decision?: Decision;
  readonly input?: object;
  readonly effects?: Effect[];
  readonly settings?: Partial<ApprovalSettings>;
  readonly and?: Policy[];
  readonly id?: string;
}

function callOf({
  decision = 'ask',
  input = { command: 'git fetch' },
  effects = [],
  settings,
  and = [],
  id = 'c1',
}: Shape) {
  const states: CallState[] = [];
  const policy = {
    version: 'p1',
    approvals: { timeoutMs: 300_000, headless: 'deny', rememberMaxMs: 28_800_000, ...settings },
    and,
  } as unknown as Policy;
  const by = { id: 'tiers.execute.decision', decision, reason: 'Commands are asked about.', source: 'x:1' };
  const call = {
    id,
    sessionId: 's1',
    principal: 'uid:1',
    workspace: '/ws',
    policy,
    decision,
    policyNow: () => ({ ...policy, version: world.policyVersion }),
    controller: new AbortController(),
    announce: (state: CallState) => states.push(state),
    checked: { tool, input, effects, tier: 'execute' },
    question: { ...question(), effects },
    decided: { decision, by, rules: [by], effects: [], unknown: [] },
    options: {},
  } as unknown as JudgedCall;
  return { call, states };
}

/** Starts a call; the rest of the pipeline confirms and runs it like execute. */
function start(shape: Shape = {}, between?: () => void) {
  const { call, states } = callOf(shape);
  const approvals: ClearedCall['approval'][] = [];
  const outcome = approve(
    machine.approvals,
    deps,
  )(async (it) => {
    between?.();
    approvals.push(it.approval);
    await it.approval?.confirm?.();
    runs.push(it.id);
    return succeeded('ran');
  })(call);
  const result = outcome.then(({ data, error }) => {
    if (error) throw error;
    return data;
  });
  result.catch(() => {});
  return {
    call,
    states,
    outcome,
    approvals,
    result,
    error: () => result.then(() => undefined).catch((it: ToolError) => it.toWire()),
  };
}

/** The id of the next question, once it waits. */
async function asked(): Promise<string> {
  for (let turns = 0; turns < 100; turns++) {
    const id = machine.approvals.list().at(-1)?.approvalId;
    if (id !== undefined) return id;
    await Promise.resolve();
  }
  throw new Error('nothing was asked');
}

const yes = async () => machine.approvals.resolve(await asked(), { decision: 'approve', by: 'ann' });

test('an allowed call runs without a question', async () => {
  expect(await start({ decision: 'allow' }).result).toBe('ran');
  expect(machine.told()).toEqual([]);
});

test('an asked call waits, and runs after a yes', async () => {
  const { result, states, outcome } = start();
  const id = await asked();
  expect(runs).toEqual([]);
  expect(states).toEqual([{ status: 'blocked-on-user', approvalId: id }]);
  await yes();
  expect(await result).toBe('ran');
  expect(await outcome).toMatchObject({ approvalGranted: true });
  expect(states.at(-1)).toEqual({ status: 'queued', position: 0 });
  expect(machine.told()).toEqual(['requested', 'approve', 'used']);
});

test('the person sees impact, rule, reason and diff, and no secret', async () => {
  start({
    input: { command: 'git fetch https://u:hunter2@x' },
    effects: [{ kind: 'exec', target: 'git fetch hunter2' }],
  });
  await asked();
  const [approval] = machine.approvals.list();
  expect(approval).toMatchObject({
    rule: 'tiers.execute.decision',
    reason: 'Commands are asked about.',
    diff: '+[secret]',
    impact: { level: 'high', description: 'This operation will affect remote systems' },
    input: { command: 'git fetch https://u:[secret]@x' },
  });
  expect(JSON.stringify(approval)).not.toContain('hunter2');
});

test('a call with a secret has high impact, says so, and proposes no rule that would hold the secret', async () => {
  start({ input: { command: 'git status hunter2' } });
  const id = await asked();
  expect(machine.approvals.get(id)?.impact).toMatchObject({
    level: 'high',
    warnings: expect.arrayContaining(['1 parts are hidden as secrets']),
  });
  const remember = { scope: 'always', match: 'exact' } as const;
  expect(machine.approvals.resolve(id, { decision: 'approve', by: 'ann', remember }).proposedRule).toBeUndefined();
});

test('a call that is too long to be shown says so, and no longer has low impact', async () => {
  start({ input: { command: 'x'.repeat(100_000) } });
  await asked();
  const [approval] = machine.approvals.list();
  expect(approval?.impact.warnings).toContain('Only part of it is shown here');
  expect(JSON.stringify(approval).length).toBeLessThan(40_000);
});

test('a no ends the call with the feedback, and the same call again without a question', async () => {
  const { error, states } = start();
  machine.approvals.resolve(await asked(), { decision: 'deny', by: 'ann', feedback: 'push it yourself' });
  expect(await error()).toMatchObject({
    code: 'APPROVAL_DENIED',
    message: 'the person said no to `terminal_execute`: push it yourself',
    details: { feedback: 'push it yourself', by: 'ann' },
  });
  expect(states.at(-1)).toEqual({ status: 'rejected-by-user' });
  machine.told();
  expect((await start().error())?.message).toContain('denied exactly this call a moment ago');
  expect(machine.told()).toEqual([]);
  start({ input: { command: 'git fetch --tags' } });
  await asked();
});

test('nobody answers in time: APPROVAL_TIMEOUT', async () => {
  const { error } = start({ settings: { timeoutMs: 5000 } });
  await asked();
  machine.advance(5000);
  expect(await error()).toMatchObject({
    code: 'APPROVAL_TIMEOUT',
    recoverable: true,
    layer: 'approval',
    message: expect.stringMatching(/about which rule `[\w.-]+` asks: \S/),
  });
});

test('the strictest of the policies that must agree sets the time', async () => {
  const narrow = { and: [], approvals: { timeoutMs: 1000, headless: 'wait', rememberMaxMs: 0 } } as unknown as Policy;
  const { error } = start({ and: [narrow] });
  await asked();
  machine.advance(1000);
  expect((await error())?.code).toBe('APPROVAL_TIMEOUT');
});

describe('with nobody there', () => {
  test('a call is denied at once where the policy says so, with what to do', async () => {
    world.approvers = 0;
    expect(await start().error()).toMatchObject({
      code: 'APPROVAL_DENIED',
      rule: 'tiers.execute.decision',
      details: { headless: true },
      message: expect.stringContaining('nobody is there to ask'),
      suggestion: expect.stringContaining('ringfence approvals watch'),
    });
    expect(machine.told()).toEqual([]);
  });

  test('a call waits where the policy says that', async () => {
    world.approvers = 0;
    const { result } = start({ settings: { headless: 'wait' } });
    await yes();
    expect(await result).toBe('ran');
  });

  test('a yes that was given after a restart is used', async () => {
    start();
    await asked();
    machine.killAndRestart();
    await yes();
    world.approvers = 0;
    expect(await start({ id: 'c2' }).result).toBe('ran');
    expect((await start({ id: 'c3' }).error())?.code).toBe('APPROVAL_DENIED');
    expect(runs).toEqual(['c2']);
  });
});

describe('a change between the yes and the start', () => {
  test.each<[string, () => void, string]>([
    ['the file', () => (world.hash = 'h2'), 'the file a.txt'],
    ['that there is a file', () => (world.hash = null), 'the file a.txt'],
    ['the program', () => (world.ino = '2'), 'the program /usr/bin/git'],
    ['that there is a program', () => (world.ino = undefined), 'the program /usr/bin/git'],
    ['which program is found', () => (world.programPath = '/ws/git'), 'the program /usr/bin/git, the program /ws/git'],
    ['the policy', () => (world.policyVersion = 'p2'), 'the policy'],
  ])('a call is refused if this changed between the yes and the start: %s', async (_, change, told) => {
    const { error } = start({}, change);
    await yes();
    expect(await error()).toMatchObject({
      code: 'APPROVAL_STALE',
      message: `\`terminal_execute\` was approved, but since then this has changed: ${told}`,
    });
    expect(runs).toEqual([]);
    expect(machine.told()).toEqual(['requested', 'approve', 'withdrawn']);
  });

  test('a call is refused if a file changed while the question waited', async () => {
    const { error } = start();
    await asked();
    world.hash = 'h2';
    await yes();
    expect((await error())?.code).toBe('APPROVAL_STALE');
  });

  test('a change that is reverted does not bring the yes back', async () => {
    const stale = start({}, () => (world.hash = 'h2'));
    await yes();
    await stale.error();
    world.hash = 'h1';
    start({ id: 'c2' });
    await asked();
    expect(runs).toEqual([]);
  });
});

test('a yes is for one run: what confirms twice is refused', async () => {
  const { call } = callOf({});
  const result = approve(
    machine.approvals,
    deps,
  )(async (it) => {
    await it.approval?.confirm?.();
    await it.approval?.confirm?.();
    return succeeded('ran twice');
  })(call);
  await yes();
  expect((await result).error).toMatchObject({
    code: 'APPROVAL_STALE',
    message: expect.stringContaining('is already used'),
  });
});

test('an abort while it waits ends the call at once and withdraws the question', async () => {
  const { call, error } = start();
  await asked();
  call.controller.abort(new ToolError('CANCELLED', 'no longer wanted'));
  expect((await error())?.code).toBe('CANCELLED');
  expect(machine.approvals.list()).toEqual([]);
});

test('an abort during the preview asks nobody', async () => {
  const { call, error } = start();
  call.controller.abort(new ToolError('CANCELLED', 'no longer wanted'));
  expect((await error())?.code).toBe('CANCELLED');
  expect(machine.told()).toEqual([]);
});

test('a call that is cancelled after the yes and before its start does not leave a yes behind', async () => {
  const { call, error } = start({}, () => call.controller.abort(new ToolError('CANCELLED', 'no longer wanted')));
  await yes();
  expect((await error())?.code).toBe('CANCELLED');
  start({ id: 'c2' });
  await asked();
  expect(machine.told()).toEqual(['requested', 'approve', 'withdrawn', 'requested']);
});

test('a remembered yes runs the next call without a question, a remembered no denies it', async () => {
  const remember = { scope: 'session', match: 'tool' } as const;
  const first = start();
  machine.approvals.resolve(await asked(), { decision: 'approve', by: 'ann', remember });
  await first.result;
  const second = start({ id: 'c2', input: { command: 'git fetch --tags' } });
  expect(await second.result).toBe('ran');
  expect(await second.outcome).toMatchObject({ approvalGranted: true });
  expect(second.approvals).toEqual([{}]);

  machine.approvals.endSession('s1');
  const third = start({ id: 'c3' });
  machine.approvals.resolve(await asked(), { decision: 'deny', by: 'ann', feedback: 'never', remember });
  await third.error();
  expect((await start({ id: 'c4', input: { command: 'git fetch x' } }).error())?.message).toBe(
    'the person said no for good to calls such as `terminal_execute`: never',
  );
});

test('a call whose cost alone makes it ask tells so, and is not covered by a yes to others', async () => {
  const first = start();
  const remember = { scope: 'session', match: 'tool' } as const;
  machine.approvals.resolve(await asked(), { decision: 'approve', by: 'ann', remember });
  await first.result;
  const { call } = callOf({ id: 'c2' });
  Object.assign(call, { cost: { usd: 2, asks: true }, decided: { ...call.decided, decision: 'allow' } });
  approve(machine.approvals, deps)(async () => succeeded('ran'))(call).catch(() => {});
  await asked();
  expect(machine.approvals.list()).toMatchObject([{ rule: 'tiers.execute.costUsdAskAbove', costUsd: 2 }]);
});

test('calls that wait hold up nobody', async () => {
  start();
  await asked();
  expect(await start({ id: 'c2', decision: 'allow' }).result).toBe('ran');
});

test('a command that names more files than are bound is said to, is no longer of low impact, and counts as unknown', async () => {
  world.complete = false;
  start({});
  const id = await asked();
  expect(machine.approvals.get(id)?.impact.warnings[0]).toMatch(/more files than a yes can be bound to/);
});

test('a yes that can not be recorded is neither taken nor used, and can be given again', async () => {
  const { result, error } = start({}, () => (machine.onRecord = false));
  machine.onRecord = false;
  const id = await asked();
  expect(() => machine.approvals.resolve(id, { decision: 'approve', by: 'ann' })).toThrow(/not accepted/);
  expect(machine.approvals.list().map((it) => it.approvalId)).toEqual([id]);
  machine.onRecord = true;
  await yes();
  await result.catch(() => {});
  expect((await error())?.code).toBe('STORE_FAILED');
  expect(runs).toEqual([]);
});

test('a repeated call of another session is denied without what was said to the first', async () => {
  start();
  machine.approvals.resolve(await asked(), { decision: 'deny', by: 'ann', feedback: 'for your eyes' });
  const other = callOf({ id: 'c2' }).call;
  Object.assign(other, { sessionId: 's2' });
  const error = await approve(
    machine.approvals,
    deps,
  )(async () => succeeded('ran'))(other).then(
    () => undefined,
    (it: ToolError) => it.toWire(),
  );
  expect(error?.code).toBe('APPROVAL_DENIED');
  expect(JSON.stringify(error)).not.toContain('for your eyes');
});
