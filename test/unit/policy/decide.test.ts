import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Decision } from '../../../src/base/call.ts';
import { couldAllow, decide, decideTool, type PolicyDecision } from '../../../src/policy/decide.ts';
import { compileMatch, isAllowable, LIKELY, MAYBE, mentionsOf, NO, partsOf, YES } from '../../../src/policy/match.ts';
import type { PolicyQuestion } from '../../../src/policy/question.ts';
import type { MatchSpec } from '../../../src/policy/schema/match.ts';
import type { Policy, Rule } from '../../../src/policy/schema.ts';
import { effectOf, lineOf, policyOf, questionOf, ruleOf, simpleOf } from '../../support/policy.ts';

const STRICTNESS: Record<Decision, number> = { allow: 0, ask: 1, deny: 2 };
const DECISIONS: Decision[] = ['allow', 'ask', 'deny'];
const ids = ({ rules }: PolicyDecision) => rules.map((it) => it.id);

describe('one part', () => {
  const read = effectOf('read', 'docs/a');

  test.each(DECISIONS)('a part that no rule matches is decided by its tier: %s', (decision) => {
    const decided = decide(policyOf([ruleOf('deny', { path: 'src/**' })], { tiers: { read_only: decision } }), read);
    expect(decided).toMatchObject({ decision, by: { id: 'tiers.read_only.decision', source: 'policy.yaml:2' } });
    expect(ids(decided)).toEqual(['tiers.read_only.decision']);
  });

  test.each(DECISIONS)('a part that a rule allows is allowed, whatever the tier says: %s', (tier) => {
    const rule = ruleOf('allow', { read: 'docs/**' }, { id: 'mine' });
    const decided = decide(policyOf([rule], { tiers: { read_only: tier } }), read);
    expect(decided).toMatchObject({ decision: 'allow', by: { id: 'mine' } });
    expect(ids(decided)).toEqual(['mine']);
  });

  test.each<[Decision, Decision, Decision]>([
    ['ask', 'allow', 'ask'],
    ['ask', 'ask', 'ask'],
    ['ask', 'deny', 'deny'],
    ['deny', 'allow', 'deny'],
    ['deny', 'ask', 'deny'],
  ])('a part gets the stricter of a rule that does not allow and the tier: %s and %s is %s', (said, tier, decision) => {
    const rule = ruleOf(said, { read: 'docs/**' }, { id: 'mine' });
    const decided = decide(policyOf([rule], { tiers: { read_only: tier } }), read);
    const order = ['mine', 'tiers.read_only.decision'];
    expect(decided.decision).toBe(decision);
    expect(ids(decided)).toEqual(decision === said ? order : order.toReversed());
  });

  test('a part is decided by the strictest of its rules, and all of them are listed, strictest first', () => {
    const rules = DECISIONS.map((decision) => ruleOf(decision, { read: 'docs/**' }, { id: decision }));
    expect(ids(decide(policyOf(rules), read))).toEqual(['deny', 'ask', 'allow']);
  });

  test('tells of a rule its facts and code, not its match or examples', () => {
    const rule = ruleOf('deny', { read: '**' }, { code: 'SENSITIVE_FILE', examples: { match: ['x'] } });
    const { by } = decide(policyOf([rule]), read);
    expect(by).toEqual({
      id: rule.id,
      decision: 'deny',
      reason: rule.reason,
      source: rule.source,
      code: 'SENSITIVE_FILE',
    });
  });

  test('a rule with a code is named before equally strict ones, else the first by id', () => {
    const plain = ['c', 'b'].map((id) => ruleOf('deny', { read: '**' }, { id }));
    const coded = ruleOf('deny', { read: '**' }, { id: 'z', code: 'SENSITIVE_FILE' });
    expect(decide(policyOf(plain), read).by.id).toBe('b');
    expect(decide(policyOf([...plain, coded]), read).by.id).toBe('z');
  });

  test('a decision lists at most 64 rules, the strictest', () => {
    const rules = Array.from({ length: 100 }, () => ruleOf('ask', { read: '**' }));
    const decided = decide(policyOf([...rules, ruleOf('deny', { read: '**' }, { id: 'last' })]), read);
    expect(decided.rules).toHaveLength(64);
    expect(decided.by.id).toBe('last');
  });
});

describe('destructive calls', () => {
  const approve = { id: 'tiers.write.approve', decision: 'ask' as const, reason: 'r', source: 's' };
  const withApprove = (decision: Decision, rules: Rule[] = []): Policy => {
    const policy = policyOf(rules, { tiers: { write: decision } });
    return { ...policy, tiers: { ...policy.tiers, write: { ...policy.tiers.write, approveDestructive: approve } } };
  };
  const write = (destructive: boolean) =>
    questionOf({ tier: 'write', destructive, effects: [{ kind: 'delete', target: 'a' }] });

  test('destructive calls of an allowed tier are asked about only if the policy says so', () => {
    expect(decide(withApprove('allow'), write(true)).by).toEqual(approve);
    expect(decide(withApprove('allow'), write(false)).decision).toBe('allow');
    expect(decide(policyOf([]), write(true)).decision).toBe('allow');
  });

  test('destructive calls of a denied tier stay denied', () => {
    expect(decide(withApprove('deny'), write(true)).decision).toBe('deny');
  });

  test('destructive calls that a rule allows are allowed', () => {
    expect(decide(withApprove('allow', [ruleOf('allow', { delete: 'a' })]), write(true)).decision).toBe('allow');
  });
});

describe('several parts', () => {
  test('several parts are decided each for itself, and the strictest counts', () => {
    const policy = policyOf([ruleOf('allow', { command: ['ls'] }, { id: 'ls' })], { tiers: { execute: 'ask' } });
    expect(decide(policy, lineOf(['ls', 'ls -l'])).decision).toBe('allow');
    const decided = decide(policy, lineOf(['ls', 'rm x']));
    expect(decided).toMatchObject({ decision: 'ask', by: { id: 'tiers.execute.decision' } });
    expect(ids(decided)).toEqual(['tiers.execute.decision', 'ls']);
  });

  test('a redirection of an allowed command is not allowed by that', () => {
    const policy = policyOf([ruleOf('allow', { command: ['ls'] })], { tiers: { execute: 'ask' } });
    const line = lineOf(['ls'], { redirects: [{ kind: 'write', target: 'x' }] });
    expect(decide(policy, line).decision).toBe('ask');
    const wider = policyOf([...policy.rules, ruleOf('allow', { write: 'x' })], { tiers: { execute: 'ask' } });
    expect(decide(wider, line).decision).toBe('allow');
  });

  test('the effects are those of the tool, an exec for each command, and the redirections', () => {
    const line = lineOf(['ls -l', 'wc'], { redirects: [{ kind: 'write', target: 'x' }] });
    const { effects } = decide(policyOf([]), { ...line, effects: [...line.effects, { kind: 'read', target: 'cwd' }] });
    expect(effects).toEqual([
      { kind: 'read', target: 'cwd' },
      { kind: 'exec', target: 'ls -l' },
      { kind: 'exec', target: 'wc' },
      { kind: 'write', target: 'x' },
    ]);
  });

  test('a line of which no command is known keeps its text as effect', () => {
    const line = { ...lineOf([], { unknown: ['syntax'] }), effects: [{ kind: 'exec' as const, target: 'if then' }] };
    expect(decide(policyOf([]), line).effects).toEqual(line.effects);
  });
});

describe('what is unknown', () => {
  const allowAll = [{ command: ['*'] }, { tool: '*' }, {}, { not: { command: ['rm'] } }].map((it) =>
    ruleOf('allow', it),
  );

  test.each<[string, PolicyQuestion]>([
    ['of a line', lineOf(['ls'], { unknown: ['syntax'] })],
    ['of a command', lineOf([simpleOf('x=1 ls', { unknown: 'an assignment' })])],
    ['in command position', lineOf(['$x'])],
  ])('%s is what the tier says, and rules that refuse', (_, line) => {
    for (const execute of DECISIONS)
      expect(decide(policyOf(allowAll, { tiers: { execute } }), line).decision).toBe(execute);
    const denied = policyOf([...allowAll, ruleOf('deny', { tier: 'execute' })]);
    expect(decide(denied, line).decision).toBe('deny');
  });

  test('each reason why something is unknown is listed once', () => {
    const line = lineOf([simpleOf('x=1 ls', { unknown: 'a' }), simpleOf('y=1 ls', { unknown: 'a' })], {
      unknown: ['b'],
    });
    expect(decide(policyOf([]), line).unknown).toEqual(['b', 'a']);
    expect(decide(policyOf([]), lineOf(['ls'])).unknown).toEqual([]);
  });

  test('a word that may make a command a refused one keeps rules from allowing it', () => {
    const rules = [ruleOf('allow', { command: ['git'] }), ruleOf('deny', { command: ['git', 'push'] })];
    const policy = policyOf(rules, { tiers: { execute: 'ask' } });
    const decision = (line: string) => decide(policy, lineOf([line])).decision;
    expect([decision('git log $x'), decision('git push $x'), decision('git $x'), decision('git $x push')]).toEqual([
      'allow',
      'deny',
      'ask',
      'ask',
    ]);
  });
});

describe('paths among the words', () => {
  const rules = [
    ruleOf('allow', { command: ['cat'] }),
    ruleOf('allow', { read: 'docs/**' }),
    ruleOf('deny', { read: '**/.env' }, { id: 'env' }),
    ruleOf('ask', { write: 'src/**' }, { id: 'src' }),
  ];
  const policy = policyOf(rules, { tiers: { execute: 'ask' } });
  const cat = (...mentions: string[]) => decide(policy, lineOf(['cat x'], { mentions }));

  test('paths among the words are refused by the rules for them, and allowed by no rule', () => {
    expect(cat('a', 'b/.env')).toMatchObject({ decision: 'deny', by: { id: 'env' } });
    expect(cat('src/a')).toMatchObject({ decision: 'ask', by: { id: 'src' } });
    expect(cat('docs/a').decision).toBe('allow');
    expect(cat('other').decision).toBe('allow');
  });

  test('a rule on secrets leaves the words of commands to the masks of the sandbox, but not the paths of file tools', () => {
    const secrets = ruleOf('deny', { path: '**/.env' }, { code: 'SENSITIVE_FILE' });
    const masked = policyOf([secrets]);
    const redirects = [{ kind: 'read', target: '.env' }] as const;
    expect(decide(masked, lineOf(['cat x'], { mentions: ['.env'], redirects })).decision).toBe('allow');
    expect(decide(masked, effectOf('read', '.env')).decision).toBe('deny');
  });

  test('a rule on secrets that depends on the tool judges the words, since no mount knows the tool', () => {
    const secrets = ruleOf('deny', { tool: 'terminal_execute', path: '**/.env' }, { code: 'SENSITIVE_FILE' });
    expect(decide(policyOf([secrets]), lineOf(['cat x'], { mentions: ['.env'] })).decision).toBe('deny');
  });
});

describe('a rule that a person wrote', () => {
  const written = policyOf([ruleOf('deny', { command: ['terraform', 'apply'] }, { id: 'apply' })]);
  const bundled = policyOf([
    ruleOf('deny', { command: ['terraform', 'apply'] }, { id: 'apply', source: 'built-in:default:9' }),
  ]);

  test.each([
    ['a program that only the shell knows', lineOf(['$x apply'])],
    ['a word that only the shell knows', lineOf(['terraform $x'])],
    ['a text that only the shell knows', lineOf(['eval x'], { isHidden: true })],
  ])('the rule may hide in %s, so that a person is asked', (_, line) => {
    expect(decide(written, line)).toMatchObject({ decision: 'ask', by: { id: 'apply' } });
    expect(decide(bundled, line).decision).toBe('allow');
  });

  test('the rule can not hide in words that are known', () => {
    expect(decide(written, lineOf(['terraform plan'])).decision).toBe('allow');
  });

  test('the rule holds for the scripts that a line runs by name, which no rule needs to allow', () => {
    const scripts = [simpleOf('terraform apply')];
    expect(decide(written, lineOf(['npm run release'], { scripts })).decision).toBe('deny');
    const allowed = policyOf([ruleOf('allow', { command: ['npm', 'run'] })], { tiers: { execute: 'ask' } });
    expect(decide(allowed, lineOf(['npm run build'], { scripts: [simpleOf('tsc')] })).decision).toBe('allow');
  });
});

describe('rules that are found by one thing and hold by another', () => {
  const decision = (match: MatchSpec, asked: PolicyQuestion) =>
    decide(policyOf([ruleOf('deny', match)]), asked).decision;

  test('a program that resolves to another name is refused by the name as written', () => {
    const line = lineOf([simpleOf('/bin/python x', { program: 'python3.11' })]);
    expect(decision({ command: ['python'] }, line)).toBe('deny');
    expect(decision({ command: ['python3.11'] }, line)).toBe('deny');
    expect(decision({ command: ['perl'] }, line)).toBe('allow');
  });

  test('a command with one of several paths is refused for the paths that the line names', () => {
    const match: MatchSpec = { command: ['rm'], any: [{ path: 'docs/**' }, { write: 'x' }] };
    expect(decision(match, lineOf(['rm docs/a'], { mentions: ['docs/a'] }))).toBe('deny');
    expect(decision(match, lineOf(['cat docs/a'], { mentions: ['docs/a'] }))).toBe('allow');
  });

  test('a pattern for all below a folder by its ending is found for what is below', () => {
    expect(decision({ path: '**/*.d/**' }, effectOf('read', 'conf.d/x'))).toBe('deny');
  });

  test('two conditions on one command are not met by two commands of a line, whatever it names', () => {
    const match: MatchSpec = { all: [{ command: ['git'] }, { command: ['*', 'push'] }] };
    expect(decision(match, lineOf(['git add', 'ls push'], { mentions: ['add'] }))).toBe('allow');
    expect(decision(match, lineOf(['git push'], { mentions: ['add'] }))).toBe('deny');
  });

  test('a rule on paths or hosts is no doubt about commands', () => {
    const rules = [ruleOf('allow', { command: ['ls'] }), ruleOf('deny', { any: [{ path: 'a' }, { tool: 'x*' }] })];
    expect(decide(policyOf(rules, { tiers: { execute: 'ask' } }), lineOf(['ls'])).decision).toBe('allow');
  });
});

describe('layers', () => {
  test('decide each for itself, and the strictest of all counts', () => {
    const allowed = policyOf([ruleOf('allow', { read: '**' }, { id: 'wide' })], { tiers: { read_only: 'deny' } });
    const asked = { ...policyOf([], { tiers: { read_only: 'ask' } }), and: [policyOf([])] };
    expect(decide({ ...allowed, and: [asked] }, effectOf('read', 'a'))).toMatchObject({
      decision: 'ask',
      rules: [{ id: 'tiers.read_only.decision', decision: 'ask' }, { id: 'wide' }, { decision: 'allow' }],
    });
  });

  test('the same rule in two of them is told once, and so is the tier', () => {
    const layer = policyOf([ruleOf('deny', { read: '**' })]);
    expect(decide({ ...layer, and: [layer] }, effectOf('read', 'a')).rules).toHaveLength(2);
  });
});

describe('a tool before it is called', () => {
  const tool = { name: 'git_push', aliases: [{ name: 'push' }], tier: 'execute' as const, category: 'vcs' };

  test.each<[Decision, MatchSpec, Decision, Decision, boolean]>([
    ['ask', { tool: 'other' }, 'deny', 'deny', false],
    ['ask', { tool: 'git_*' }, 'allow', 'ask', true],
    ['deny', { tool: 'push' }, 'allow', 'deny', false],
    ['deny', { tool: 'other' }, 'allow', 'allow', true],
    ['deny', { path: '**' }, 'allow', 'allow', true],
    ['deny', { not: { path: 'docs/**' } }, 'allow', 'allow', true],
    ['deny', { when: { principal: 'x' } }, 'allow', 'allow', true],
    ['allow', { tool: 'git_push' }, 'deny', 'allow', true],
    ['allow', { tool: 'git_push', command: ['git'] }, 'deny', 'deny', false],
    ['allow', { tool: 'git_push', path: 'a' }, 'deny', 'deny', true],
    ['allow', { any: [{ command: ['git'] }, { path: 'a' }] }, 'deny', 'deny', true],
    ['allow', { all: [{ any: [{ command: ['git'] }] }] }, 'deny', 'deny', false],
    ['ask', { tool: 'git_push' }, 'deny', 'deny', false],
    ['allow', { tool: 'other', command: ['git'] }, 'deny', 'deny', false],
    ['ask', { session: 'x' }, 'deny', 'deny', false],
    ['allow', { session: 'x' }, 'deny', 'deny', true],
  ])('a rule that says %s for %j where the tier says %s: %s', (decision, match, tier, expected, could) => {
    const policy = policyOf([ruleOf(decision, match)], { tiers: { execute: tier } });
    expect(decideTool(policy, tool)).toBe(expected);
    expect(couldAllow(policy, tool)).toBe(could);
  });

  test('a rule on commands is of use to a tool that runs them', () => {
    const policy = policyOf([ruleOf('allow', { command: ['git'] })], { tiers: { execute: 'deny' } });
    expect([couldAllow(policy, { ...tool, commandOf: () => '' }), couldAllow(policy, tool)]).toEqual([true, false]);
  });

  test('calls of the least tier are left where those that need most are denied', () => {
    const reading = { ...tool, tiers: { least: 'read_only' } } as const;
    const tiers = { execute: 'deny' } as const;
    const noExecute = ruleOf('deny', { tier: ['write', 'execute'] });
    for (const policy of [policyOf([], { tiers }), policyOf([noExecute], { tiers })])
      expect([decideTool(policy, reading), couldAllow(policy, reading)]).toEqual(['allow', true]);
    const none = policyOf([ruleOf('deny', { tool: tool.name })], { tiers });
    expect([decideTool(none, reading), couldAllow(none, reading)]).toEqual(['deny', false]);
    const asks = policyOf([], { tiers: { execute: 'ask' } });
    expect([decideTool(asks, reading), couldAllow(asks, reading)]).toEqual(['ask', true]);
  });

  test('every layer must agree', () => {
    const policy = policyOf([], { and: [policyOf([], { tiers: { execute: 'deny' } })] });
    expect([decideTool(policy, tool), couldAllow(policy, tool)]).toEqual(['deny', false]);
  });
});

const globs = ['a/**', '**/b', '**/*.pem', '**/.env*', '/etc/**', '~/.ssh/**', '*', 'a/{b,c}/d', '**/x/**/y', '**'];
const glob = fc.constantFrom(...globs);
const leaf: fc.Arbitrary<MatchSpec> = fc.oneof(
  fc.record({ tool: fc.constantFrom('file_read', 'file_*', 'bash', 'terminal_execute') }),
  fc.record({ tier: fc.constantFrom('read_only' as const, 'execute' as const) }),
  fc.record({ path: glob }),
  fc.record({ read: fc.array(glob, { minLength: 1, maxLength: 3 }) }),
  fc.record({ write: glob, delete: glob }, { requiredKeys: ['write'] }),
  fc.record({
    command: fc.constantFrom<(string | string[])[]>(
      ['git', 'push'],
      ['git'],
      ['*', 'a/b'],
      [['ls', 'cat']],
      ['l*', '$'],
    ),
  }),
  fc.record({ command: fc.constant<string[]>(['cat']), path: glob }),
  fc.record({ host: fc.constantFrom('*.org', 'a.org:1') }),
  fc.record({ principal: fc.constantFrom('local', 'x') }),
);
const match: fc.Arbitrary<MatchSpec> = fc.letrec<{ match: MatchSpec }>((tie) => ({
  match: fc.oneof(
    { maxDepth: 2, withCrossShrink: true },
    leaf,
    fc.record({ all: fc.array(tie('match'), { minLength: 1, maxLength: 2 }) }),
    fc.record({ any: fc.array(tie('match'), { minLength: 1, maxLength: 2 }) }),
    fc.record({ not: tie('match') }),
  ),
})).match;
const decision = fc.constantFrom(...DECISIONS);
const rule: fc.Arbitrary<Rule> = fc
  .record({ decision, match, id: fc.stringMatching(/^[a-z]{1,6}$/) })
  .map((it) => ({ ...it, reason: 'r', source: `p:${it.id}` }));
const rules = fc.uniqueArray(rule, { maxLength: 12, selector: (it) => it.id });
const policy = fc
  .record({ rules, tiers: fc.record({ read_only: decision, execute: decision }) })
  .map((it) => policyOf(it.rules, it));
const target = fc.constantFrom(
  '.',
  'a',
  'a/b',
  'c/b',
  'k.pem',
  'a/.env.x',
  '/etc/passwd',
  '/home/me/.ssh/id',
  'q/x/r/y',
);
const simple = fc.constantFrom('git push', 'git $x', 'ls', 'cat a/b', '$x', 'git log');
const question: fc.Arbitrary<PolicyQuestion> = fc.oneof(
  fc.record({ kind: fc.constantFrom('read', 'write', 'delete'), target }).map((it) => effectOf(it.kind, it.target)),
  fc.constantFrom(questionOf(), effectOf('connect', 'a.org:1'), effectOf('exec', 'x')),
  fc
    .record({
      commands: fc.array(simple, { maxLength: 3 }),
      redirects: fc.array(fc.record({ kind: fc.constantFrom('read' as const, 'write' as const), target }), {
        maxLength: 2,
      }),
      mentions: fc.array(target, { maxLength: 2 }),
      unknown: fc.array(fc.constant('u'), { maxLength: 1 }),
    })
    .map(({ commands, ...rest }) => lineOf(commands, rest)),
);

/** Decides without an index: asks all rules about all parts. */
function naively(policy: Policy, asked: PolicyQuestion): Decision {
  const strictest = (said: readonly Decision[]) => said.reduce((a, b) => (STRICTNESS[b] > STRICTNESS[a] ? b : a));
  const ofPart = (layer: Policy) => (part: ReturnType<typeof partsOf>[number]) => {
    const levels = layer.rules.map((it) => {
      const { test: levelOf, ofCommands } = compileMatch(it.match);
      return { of: it.decision, level: levelOf(part), ofCommands };
    });
    const strict = levels.filter((it) => it.of !== 'allow' && it.level >= LIKELY).map((it) => it.of);
    const mayHide = (it: (typeof levels)[number]) =>
      it.level === MAYBE || (part.kind === 'unknown' && asked.command?.isHidden && it.ofCommands && it.level > NO);
    if (levels.some((it) => it.of !== 'allow' && it.level < LIKELY && mayHide(it))) strict.push('ask');
    const doubt = levels.some((it) => it.of !== 'allow' && it.level === MAYBE);
    const allowed = isAllowable(part) && !doubt && levels.some((it) => it.of === 'allow' && it.level === YES);
    return strictest([...strict, allowed ? 'allow' : layer.tiers[asked.tier].decision]);
  };
  const refusing = policy.rules.filter((it) => it.decision !== 'allow' && compileMatch(it.match).ofPaths);
  const refusals = mentionsOf(asked).flatMap((part) =>
    refusing.filter((it) => compileMatch(it.match).test(part) >= LIKELY).map((it) => it.decision),
  );
  return strictest([...partsOf(asked).map(ofPart(policy)), ...refusals, ...policy.and.map((it) => naively(it, asked))]);
}

function deepFrozen<T>(value: T): T {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value;
  for (const it of Object.values(value)) deepFrozen(it);
  return Object.freeze(value);
}

describe('laws', () => {
  const check = { numRuns: 1000 };

  test('the index changes nothing', () => {
    fc.assert(
      fc.property(policy, question, (it, asked) => {
        expect(decide(it, asked).decision).toBe(naively(it, asked));
      }),
      { numRuns: 4000 },
    );
  });

  test('the order of the rules changes nothing', () => {
    const shuffled = rules.chain((it) =>
      fc.tuple(fc.constant(it), fc.shuffledSubarray(it, { minLength: it.length, maxLength: it.length })),
    );
    fc.assert(
      fc.property(shuffled, question, ([a, b], asked) => {
        expect(decide(policyOf(b), asked)).toEqual(decide(policyOf(a), asked));
      }),
      check,
    );
  });

  test('a further rule that asks or denies never makes a decision less strict', () => {
    const said = fc.constantFrom<Decision>('ask', 'deny');
    fc.assert(
      fc.property(policy, said, match, question, (it, further, spec, asked) => {
        const stricter = decide({ ...it, rules: [...it.rules, ruleOf(further, spec)] }, asked);
        expect(STRICTNESS[stricter.decision]).toBeGreaterThanOrEqual(STRICTNESS[decide(it, asked).decision]);
      }),
      check,
    );
  });

  test('a further layer never makes a decision less strict, and never stricter than it is itself', () => {
    fc.assert(
      fc.property(policy, policy, question, (a, b, asked) => {
        const both = STRICTNESS[decide({ ...a, and: [b] }, asked).decision];
        expect(both).toBe(Math.max(...[a, b].map((it) => STRICTNESS[decide(it, asked).decision])));
      }),
      check,
    );
  });

  test('the same is decided each time, and nothing that is asked is changed', () => {
    fc.assert(
      fc.property(policy, question, (it, asked) => {
        const [frozen, frozenAsked] = [deepFrozen(it), deepFrozen(asked)];
        const decided = decide(frozen, frozenAsked);
        expect(decide(frozen, frozenAsked)).toEqual(decided);
        expect(decide(structuredClone(frozen), structuredClone(frozenAsked))).toEqual(decided);
      }),
      check,
    );
  });

  test('the decision is the strictest of the matching rules, and each rule is listed once', () => {
    fc.assert(
      fc.property(policy, question, (it, asked) => {
        const { decision, by, rules } = decide(it, asked);
        expect([rules[0], by.decision]).toEqual([by, decision]);
        expect(new Set(rules.map((told) => `${told.id} ${told.source}`)).size).toBe(rules.length);
      }),
      check,
    );
  });

  test('no rule with a command allows what is unknown', () => {
    const allowing = match.map((it) => ruleOf('allow', { all: [it, { command: ['*'] }] }));
    fc.assert(
      fc.property(fc.array(allowing, { maxLength: 5 }), simple, (rules, text) => {
        const asked = lineOf([simpleOf(text, { unknown: 'dynamic' })]);
        expect(decide(policyOf(rules, { tiers: { execute: 'ask' } }), asked).decision).toBe('ask');
      }),
    );
  });
});
