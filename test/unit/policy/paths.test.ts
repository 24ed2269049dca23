import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { decide } from '../../../src/policy/decide.ts';
import { namesSessions, pathDecision, pathRulesOf, viewKey } from '../../../src/policy/paths.ts';
import type { MatchSpec } from '../../../src/policy/schema/match.ts';
import type { Rule } from '../../../src/policy/schema.ts';
import { effectOf, policyOf, ruleOf } from '../../support/policy.ts';

const who = { principal: 'local', session: 's1', home: '/home/me' };
const leftOf = (match: MatchSpec) => pathRulesOf(policyOf([ruleOf('deny', match)]), who)[0]?.match;
const path = { path: ['a'] };

test.each<[MatchSpec, boolean]>([
  [{ path: 'a', principal: 'local' }, false],
  [{ path: 'a', when: { principal: 'local' } }, false],
  [{ path: 'a', session: 's1' }, true],
  [{ path: 'a', when: { session: 's1' } }, true],
  [{ any: [path, { all: [{ not: { session: 's1' } }] }] }, true],
])('a policy names sessions by whatever part of a rule: %j is %s', (match, names) => {
  const policy = policyOf([ruleOf('deny', match)]);
  expect([namesSessions(policy), namesSessions({ ...policyOf([]), and: [policy] })]).toEqual([names, names]);
});

describe('rules on paths alone', () => {
  test.each<[MatchSpec, MatchSpec | undefined]>([
    [{ read: '**/.env' }, { read: ['**/.env'] }],
    [
      { write: ['a', 'b'], delete: 'c' },
      { write: ['a', 'b'], delete: ['c'] },
    ],
    [{ path: 'a', when: { principal: 'local' } }, path],
    [{ path: 'a', when: { principal: 'other' } }, undefined],
    [{ path: 'a', principal: 'loc*', session: 's1' }, path],
    [{ path: 'a', session: 's2' }, undefined],
    [{ path: 'a', tool: 'file_read' }, undefined],
    [{ path: 'a', tier: 'write' }, undefined],
    [{ path: 'a', category: 'x' }, undefined],
    [{ path: 'a', command: ['x'] }, undefined],
    [{ path: 'a', host: 'x' }, undefined],
    [{ path: 'a', database: 'x' }, undefined],
    [{ tool: 'x' }, undefined],
    [{ principal: 'local' }, undefined],
    [{ not: path }, { not: path }],
    [{ not: { path: 'a', tool: 'x' } }, undefined],
    [{ not: { path: 'a', principal: 'other' } }, undefined],
    [{ path: 'a', not: { principal: 'other' } }, path],
    [{ path: 'a', not: { principal: 'local' } }, undefined],
    [{ path: 'a', not: { tool: 'x', principal: 'other' } }, path],
    [{ all: [path, { read: 'b' }] }, { all: [path, { read: ['b'] }] }],
    [{ all: [path, { principal: 'local' }] }, path],
    [{ all: [path, { principal: 'other' }, { tool: 'x' }] }, undefined],
    [{ all: [path, { tool: 'x' }] }, undefined],
    [{ path: 'a', not: { read: 'b' } }, { all: [path, { not: { read: ['b'] } }] }],
    [{ any: [path, { tool: 'x' }] }, { any: [path] }],
    [{ any: [path, { principal: 'other' }] }, { any: [path] }],
    [{ any: [path, { principal: 'local' }] }, undefined],
    [{ read: 'b', any: [path, { principal: 'local' }] }, { read: ['b'] }],
    [{ any: [{ tool: 'x' }, { host: 'y' }] }, undefined],
    [{ not: { any: [path, { tool: 'x' }] } }, undefined],
    [{ not: { any: [path, { principal: 'other' }] } }, { not: { any: [path] } }],
    [{ not: { not: { any: [path, { tool: 'x' }] } } }, undefined],
  ])('the part of the rule %j that concerns paths is %j', (match, left) => {
    expect(leftOf(match)).toEqual(left);
  });

  test('the rules on paths are those of all layers that ask or deny, as plain data without examples', () => {
    const denied = ruleOf('deny', { read: 'a' }, { code: 'SENSITIVE_FILE', examples: { match: ['x'] } });
    const asked = ruleOf('ask', { read: 'b' });
    const layer = policyOf([asked], { and: [policyOf([ruleOf('allow', { read: 'c' })])] });
    const rules = pathRulesOf(policyOf([ruleOf('allow', { read: 'd' }), denied], { and: [layer] }), who);
    const { examples: _, ...facts } = denied;
    expect(structuredClone(rules)).toEqual([
      { ...facts, match: { read: ['a'] } },
      { ...asked, match: { read: ['b'] } },
    ]);
  });

  test.each([
    ['~/work/secret/**', './secret/**'],
    ['/home/me/work/a/*', './a/*'],
    ['/home/*/work/a', './a'],
    ['/home/me/work', '.'],
    ['~/work/**', './**'],
    ['/home/{me,you}/work/a', './a'],
  ])('patterns from the root and from home say what they reach in the workspace: %s is %s', (glob, inside) => {
    const [rule] = pathRulesOf(policyOf([ruleOf('deny', { read: glob })]), { ...who, workspace: '/home/me/work' });
    expect(rule?.match).toEqual({ read: [glob, inside] });
  });

  test('a pattern of any depth reaches in by each way that it can be taken', () => {
    const rules = pathRulesOf(policyOf([ruleOf('deny', { read: '/**/me/**/.env' })]), {
      ...who,
      workspace: '/home/me/me',
    });
    for (const target of ['.env', 'a/.env', 'me/.env'])
      expect(pathDecision(rules, 'read', target, who.home)).toBeDefined();
    expect(pathDecision(rules, 'read', 'env', who.home)).toBeUndefined();
  });

  test('a home with characters of globs is that home only', () => {
    const at = { ...who, home: '/home/*', workspace: '/home/you/work' };
    expect(pathRulesOf(policyOf([ruleOf('deny', { read: '~/work/a' })]), at)[0]?.match).toEqual({ read: ['~/work/a'] });
  });

  test('inside a workspace say the same as a decision that knows the workspace', () => {
    const segment = fc.constantFrom('home', 'me', 'work', 'a', '*', '**', 'm?');
    const globs = fc.array(segment, { minLength: 1, maxLength: 6 }).map((it) => `/${it.join('/')}`);
    const target = fc
      .array(fc.constantFrom('a', 'me', 'work'), { minLength: 1, maxLength: 3 })
      .map((it) => it.join('/'));
    const workspace = '/home/me/work';
    fc.assert(
      fc.property(globs, target, (glob, it) => {
        const policy = policyOf([ruleOf('deny', { read: glob })]);
        const rules = pathRulesOf(policy, { ...who, workspace });
        const { decision } = decide(policy, { ...effectOf('read', it), workspace });
        expect(pathDecision(rules, 'read', it, who.home)?.decision ?? 'allow').toBe(decision);
      }),
      { numRuns: 1000 },
    );
  });
});

describe('a path', () => {
  const rules: Rule[] = [
    ruleOf('ask', { path: 'docs/**' }, { id: 'docs' }),
    ruleOf('deny', { write: ['docs/fixed', '~/.config/**'] }, { id: 'fixed' }),
    ruleOf('deny', { path: ['**/.env*', '**/*.pem'] }, { id: 'env', code: 'SENSITIVE_FILE' }),
  ];

  test.each<['read' | 'write' | 'delete', string, string | undefined]>([
    ['read', 'docs/fixed', 'docs'],
    ['write', 'docs/fixed', 'fixed'],
    ['delete', 'docs', 'docs'],
    ['read', 'src/a', undefined],
    ['read', '.env', 'env'],
    ['delete', 'docs/k.pem', 'env'],
    ['write', '/home/me/.config/x', 'fixed'],
    ['write', '/home/you/.config/x', undefined],
  ])('the decision to %s %s is by the rule %s', (kind, target, id) => {
    expect(pathDecision(rules, kind, target, '/home/me')?.id).toBe(id);
  });

  test('the exception of a rule for one kind is none for the others', () => {
    const shut = [ruleOf('deny', { not: { read: 'open/**' } }, { id: 'shut' })];
    const decided = (kind: 'read' | 'write' | 'delete') => pathDecision(shut, kind, 'open/a', '/home/me')?.id;
    expect([decided('read'), decided('write'), decided('delete')]).toEqual([undefined, 'shut', 'shut']);
    expect(pathDecision(shut, 'read', 'other', '/home/me')?.id).toBe('shut');
  });

  test('a refused path is reported with the code of its rule, and the same in another thread', () => {
    const { match: _, ...facts } = rules[2] as Rule;
    expect(pathDecision(rules, 'read', '.env', '/home/me')).toEqual(facts);
    expect(pathDecision(structuredClone(rules), 'read', '.env', '/home/me')).toEqual(facts);
  });

  test('a path below ~ is decided by the given home', () => {
    expect(pathDecision(rules, 'write', '/root/.config/x', '/root')?.id).toBe('fixed');
    expect(pathDecision(rules, 'write', '/root/.config/x', '/home/me')).toBeUndefined();
  });

  test('without rules is decided by none', () => {
    expect(pathDecision([], 'read', 'a', '/home/me')).toBeUndefined();
  });
});

describe('the key of a view', () => {
  const [a, b] = [ruleOf('deny', { read: ['a'] }), ruleOf('ask', { read: ['b'] })];

  test('the key of a view is the same for the same rules in any order, twice, or at another line', () => {
    expect(viewKey([b, a])).toBe(viewKey([a, b]));
    expect(viewKey([a, b, a])).toBe(viewKey([a, b]));
    expect(viewKey([{ ...a, source: 'x:1', reason: 'y' }, b])).toBe(viewKey([a, b]));
    expect(viewKey([])).toMatch(/^sha256:[0-9a-f]{64}$/);
  });

  test.each<[string, Partial<Rule>]>([
    ['id', { id: 'other' }],
    ['decision', { decision: 'ask' }],
    ['match', { match: { read: ['c'] } }],
    ['code', { code: 'SENSITIVE_FILE' }],
  ])('differs when the %s of a rule does', (_, change) => {
    expect(viewKey([{ ...a, ...change }, b])).not.toBe(viewKey([a, b]));
  });
});
