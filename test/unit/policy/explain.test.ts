import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import type { Effect } from '../../../src/base/call.ts';
import { decide } from '../../../src/policy/decide.ts';
import { proposeRule, toDecision } from '../../../src/policy/explain.ts';
import type { PolicyQuestion } from '../../../src/policy/question.ts';
import { policyFile } from '../../../src/policy/schema/policy-file.ts';
import type { Policy, Rule } from '../../../src/policy/schema.ts';
import { effectOf, lineOf, policyOf, questionOf, ruleOf, simpleOf } from '../../support/policy.ts';

const explained = (policy: Policy, question: PolicyQuestion) => toDecision(decide(policy, question), policy, question);
/** The rules of a proposal, parsed like those of a policy file. */
const rulesIn = (yaml: string): Rule[] =>
  (policyFile.parse({ rules: parse(yaml) }).rules ?? []).map((it) => ({ ...it, source: 'x' }) as Rule);
const nothing = { read_only: 'deny', write: 'deny', execute: 'deny', external_api: 'deny' } as const;
const isAllowedBy = (rules: Rule[], question: PolicyQuestion) =>
  decide(policyOf(rules, { tiers: nothing }), question).decision === 'allow';

describe('a decision as it is told', () => {
  const push = lineOf(['git push']);

  test('a decision has its effects, and the rules with no more than four facts', () => {
    const rule = ruleOf(
      'deny',
      { command: ['git', 'push'] },
      { id: 'no-push', code: 'SENSITIVE_FILE', source: 'p.yaml:7' },
    );
    const { suggestion, ...rest } = explained(policyOf([rule]), push);
    const tier = { id: 'tiers.execute.decision', decision: 'allow', reason: 'of the tier', source: 'policy.yaml:2' };
    expect(rest).toEqual({
      decision: 'deny',
      effects: [{ kind: 'exec', target: 'git push' }],
      rules: [{ id: 'no-push', decision: 'deny', reason: 'of the test', source: 'p.yaml:7' }, tier],
    });
    expect(suggestion).toMatch(/`no-push` in policy test \(p\.yaml:7\); the strictest rule counts/);
  });

  test('an allowed call has no suggestion', () => {
    expect(explained(policyOf([]), push)).not.toHaveProperty('suggestion');
  });

  test('a decision of a tier names the line to write, and a rule for this call', () => {
    const { suggestion } = explained(policyOf([], { tiers: { execute: 'ask' } }), push);
    expect(suggestion).toContain('`tiers: {execute: {decision: allow}}` in policy test (policy.yaml:2)');
    expect(suggestion).toContain('command: [git, push, $]');
  });

  test('without the question names the tier only', () => {
    const policy = policyOf([], { tiers: { execute: 'ask' } });
    expect(toDecision(decide(policy, push), policy).suggestion).toBe(
      'Write `tiers: {execute: {decision: allow}}` in policy test (policy.yaml:2).',
    );
  });

  test('a decision on an unknown command proposes no rule, and says why', () => {
    const { suggestion } = explained(
      policyOf([], { tiers: { execute: 'ask' } }),
      lineOf(['ls'], { unknown: ['eval runs more'] }),
    );
    expect(suggestion).toMatch(/^No rule can allow it, since eval runs more; only the tier can: `tiers: \{execute/);
  });

  test('a question for destructive calls names `approve`', () => {
    const base = policyOf([]);
    const approveDestructive = { id: 'tiers.write.approve', decision: 'ask' as const, reason: 'r', source: 's:1' };
    const policy = { ...base, tiers: { ...base.tiers, write: { ...base.tiers.write, approveDestructive } } };
    const { suggestion } = explained(policy, questionOf({ tier: 'write', destructive: true }));
    expect(suggestion).toContain('`tiers: {write: {approve: []}}` in policy test (s:1)');
  });

  test('a decision on a tool that is switched off, or decided by name, names `tools`', () => {
    const off = ruleOf('deny', { tool: '*' }, { id: 'tools.disable', code: 'TOOL_DISABLED' });
    expect(explained(policyOf([off]), push).suggestion).toMatch(/^Take it out of `tools\.disable` in policy test/);
    const named = ruleOf('ask', { tool: 'mcp.git.push' }, { id: 'tools.mcp.git.push.decision' });
    const asked = questionOf({ tool: 'mcp.git.push' });
    expect(explained(policyOf([named]), asked).suggestion).toMatch(
      /^Write `tools: \{mcp\.git\.push: \{decision: allow\}\}`/,
    );
  });
});

describe('a proposed rule', () => {
  test('a proposed rule is one line of YAML that a policy file takes', () => {
    const text = proposeRule(lineOf(['git push']));
    expect(text).toMatch(
      /^- \{ id: allow-git-push-[0-9a-f]{8}, match: \{ tool: terminal_execute, command: \[git, push, \$\], principal: local \}, decision: allow, reason: A person allowed this call for good\. \}$/,
    );
    expect(rulesIn(text)).toHaveLength(1);
  });

  test.each<[string, PolicyQuestion, PolicyQuestion[]]>([
    ['a command line', lineOf(['git push']), [lineOf(['git push -f']), lineOf(['git']), lineOf(['git push', 'ls'])]],
    [
      'several commands',
      lineOf(['git add a', 'git push']),
      [lineOf(['git add b']), lineOf(['git add a', 'git push x'])],
    ],
    [
      'a redirection',
      lineOf(['ls'], { redirects: [{ kind: 'write', target: 'out' }] }),
      [lineOf(['ls'], { redirects: [{ kind: 'write', target: 'out2' }] })],
    ],
    [
      'a file',
      effectOf('write', 'docs/a'),
      [effectOf('write', 'docs/b'), effectOf('read', 'docs/a'), effectOf('write', 'docs/a/b')],
    ],
    ['the workspace itself', effectOf('read', '.'), [effectOf('read', 'a')]],
    ['a folder called ~', effectOf('read', '~/a'), [effectOf('read', '/home/me/a')]],
    ['a path elsewhere', effectOf('read', '/etc/x'), [effectOf('read', 'etc/x')]],
    ['a host', effectOf('connect', 'a.org:443'), [effectOf('connect', 'a.org:80'), effectOf('connect', 'b.a.org:443')]],
    ['a database', effectOf('query', 'app'), [effectOf('query', 'app2'), effectOf('read', 'app')]],
    ['no effects', questionOf({ tool: 'time' }), [questionOf({ tool: 'date' })]],
  ])('a rule proposed for %s covers it for that tool and principal, and not its neighbours', (_, question, others) => {
    const rules = rulesIn(proposeRule(question));
    expect(isAllowedBy(rules, question)).toBe(true);
    const tool = { ...question, tool: 'other', aliases: [] };
    const neighbours = [...others, tool, { ...question, principal: 'other' }];
    expect(neighbours.filter((it) => isAllowedBy(rules, it))).toEqual([]);
  });

  test.each<[string, PolicyQuestion, RegExp]>([
    ['of which more is unknown', lineOf(['ls'], { unknown: ['eval\nruns\u202e'] }), /^# no rule .*: eval runs $/],
    [
      'with a command of which more is unknown',
      lineOf([simpleOf('x=1 ls', { unknown: 'an assignment' })]),
      /an assignment$/,
    ],
    ['with words that only the shell knows', lineOf(['git $x']), /only the shell knows/],
    ['with an empty word', lineOf([simpleOf('echo', { words: ['echo', ''] })]), /or empty ones/],
    ['of a program of the workspace', lineOf([simpleOf('./x', { program: undefined })]), /no program of the system/],
    ['of too many words', lineOf([Array(32).fill('a').join(' ')]), /too long/],
    ['of a word that is too long', lineOf([`a ${'b'.repeat(257)}`]), /too long/],
    ['of a path that is too long', effectOf('read', 'a'.repeat(513)), /too long/],
    ['of more effects than a rule takes', lineOf(Array.from({ length: 33 }, (_, i) => `a ${i}`)), /more than 32/],
    ['that runs something not known', effectOf('exec', 'make'), /`make`, whose words/],
  ])('a rule proposed for a call %s is a comment that says so', (_, question, expected) => {
    const text = proposeRule(question);
    expect(text).toMatch(expected);
    expect(parse(text)).toBeNull();
  });

  test('a proposed rule has up to 31 words and 32 effects', () => {
    expect(rulesIn(proposeRule(lineOf([Array(31).fill('a').join(' ')])))).toHaveLength(1);
    expect(rulesIn(proposeRule(lineOf(Array.from({ length: 32 }, (_, i) => `a ${i}`))))).toHaveLength(1);
  });

  test('a proposed rule has another id for another call, the same for the same', () => {
    const id = (question: PolicyQuestion) => rulesIn(proposeRule(question))[0]?.id;
    expect(id(lineOf(['git push']))).toBe(id(lineOf(['git push'])));
    expect(id(lineOf(['git push a']))).not.toBe(id(lineOf(['git push b'])));
  });

  test('shows nothing that a person could not see', () => {
    const text = proposeRule(effectOf('read', 'a\u202egpj.exe\u001b[2J\n- { id: evil }\u200b'));
    expect(text).not.toMatch(/[^\p{L}\p{N}\p{P}\p{S} ]/u);
    expect(rulesIn(text)).toHaveLength(1);
  });

  const unit = fc.oneof(
    fc.constantFrom(
      '*',
      '?',
      '[',
      ']',
      '{',
      '}',
      ',',
      '\\',
      '$',
      '~',
      '.',
      ' ',
      '"',
      "'",
      ':',
      '#',
      '-',
      '\n',
      '!',
      '😀',
    ),
    fc.string({ unit: 'grapheme', minLength: 1, maxLength: 1 }),
  );
  const word = fc.string({ unit, minLength: 1, maxLength: 8 });

  test('covers its command whatever the words are, and no other', () => {
    const words = fc.array(word, { minLength: 1, maxLength: 4 });
    const toLine = (it: string[]) => lineOf([simpleOf('x', { words: ['x', ...it], program: 'x' })]);
    fc.assert(
      fc.property(words, words, (a, b) => {
        const rules = rulesIn(proposeRule(toLine(a)));
        expect(isAllowedBy(rules, toLine(a))).toBe(true);
        expect(isAllowedBy(rules, toLine(b))).toBe(JSON.stringify(a) === JSON.stringify(b));
      }),
      { numRuns: 500 },
    );
  });

  test('covers its path whatever the name is, and no other', () => {
    const name = word.filter((it) => !['.', '..'].includes(it) && !it.includes('/'));
    const toQuestion = (target: string): PolicyQuestion =>
      questionOf({ effects: [{ kind: 'write', target } satisfies Effect] });
    fc.assert(
      fc.property(name, name, name, (a, b, c) => {
        const rules = rulesIn(proposeRule(toQuestion(`${a}/${b}`)));
        expect(isAllowedBy(rules, toQuestion(`${a}/${b}`))).toBe(true);
        expect(isAllowedBy(rules, toQuestion(`${a}/${c}`))).toBe(b === c);
        expect(isAllowedBy(rules, toQuestion(`${a}/${b}/${c}`))).toBe(false);
      }),
      { numRuns: 500 },
    );
  });
});
