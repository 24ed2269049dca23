import { describe, expect, test } from 'vitest';
import type { Decision } from '../../../src/call.ts';
import { decide, decideTool } from '../../../src/policy/decide.ts';
import { suggest } from '../../../src/policy/explain.ts';
import { defaultPolicy, type PolicyError, parsePolicy } from '../../../src/policy/load.ts';
import { toQuestion } from '../../../src/policy/rule-examples.ts';
import type { Policy } from '../../../src/policy/schema.ts';
import { builtinTools } from '../../../src/tools/builtin.ts';
import { lineOf, policyOf, questionOf, ruleOf } from '../../support/policy.ts';

const parse = (text: string, parent?: Policy): Policy => parsePolicy(text, 'p.yaml', parent && { parent });
const decision = (policy: Policy, example: string): Decision => decide(policy, toQuestion(example)).decision;
const refusal = (text: string, parent?: Policy): string => {
  try {
    parse(text, parent);
    return '';
  } catch (error) {
    return (error as PolicyError).message;
  }
};
const COMMIT = 'git_commit {"message": "x"}';
const ALLOW_COMMIT = 'tools: { git_commit: { decision: allow } }\n';

describe('`tools: {NAME: {decision: allow}}` means what it says', () => {
  test('over a rule of `default` that asks about the tool', () => {
    expect(decision(defaultPolicy, COMMIT)).toBe('ask');
    const policy = parse(ALLOW_COMMIT);
    expect(decision(policy, COMMIT)).toBe('allow');
    expect(decideTool(policy, builtinTools.git_commit)).toBe('allow');
    expect(decision(policy, 'git commit -m x')).toBe('ask');
  });

  test('over a rule about several tools, which goes on for the others', () => {
    const parent = parse(`open: [rules]
rules: [{ id: history, match: { tool: "git_*" }, decision: deny, reason: r }]
`);
    const policy = parse(ALLOW_COMMIT, parent);
    expect([COMMIT, 'git_branch {"action": "list"}'].map((it) => decision(policy, it))).toEqual(['allow', 'deny']);
  });

  test('over rules about its tier or category', () => {
    const parent = parse(`open: [rules]
rules:
  - { id: writes, match: { tier: write }, decision: ask, reason: r }
  - { id: of-git, match: { category: [git, filesystem] }, decision: deny, reason: r }
`);
    const policy = parse('tools: { file_write: { decision: allow } }\n', parent);
    expect(decision(policy, 'file_write {"path": "a", "content": ""}')).toBe('allow');
    expect(decision(policy, 'file_edit {"path": "a", "edits": []}')).toBe('deny');
  });

  test('and leaves rules about what a call does as they are', () => {
    const policy = parse('tools: { file_read: { decision: allow }, file_write: { decision: allow } }\n');
    expect(decision(policy, 'file_read {"path": ".env"}')).toBe('deny');
    expect(decision(policy, 'file_write {"path": ".git/config", "content": ""}')).toBe('deny');
    expect(decision(policy, 'file_write {"path": "bare/HEAD", "content": ""}')).toBe('ask');
  });

  test('for command lines that no rule can know, which it allows as the tier would', () => {
    const policy = parse('tools: { terminal_execute: { decision: allow } }\n');
    for (const line of ['npm test', 'eval ls', '$x', 'curl x | sh', 'echo a > b'])
      expect([decision(defaultPolicy, line), decision(policy, line)], line).toEqual(['ask', 'allow']);
    expect(decision(policy, 'rm -rf /')).toBe('deny');
    expect(decision(policy, 'eval "cat .env"')).toBe('deny');
    const terminal = questionOf({ tool: 'terminal_interactive', aliases: [], tier: 'execute' });
    const { command } = lineOf([], { unknown: ['what is typed means what the program takes it for'] });
    const typed = { ...terminal, ...(command && { command }) };
    expect(decide(policy, typed).decision).toBe('ask');
    const both = parse('tools: { terminal_interactive: { decision: allow } }\n');
    expect(decide(both, typed).decision).toBe('allow');
  });

  test('while a rule that only names the tool allows nothing that is not known', () => {
    const policy = policyOf([ruleOf('allow', { tool: 'terminal_execute' })], { tiers: { execute: 'ask' } });
    expect(decide(policy, lineOf(['ls'], { unknown: ['eval runs text'] })).decision).toBe('ask');
  });
});

describe('`tools: {NAME: {decision: allow}}` is refused', () => {
  test.each([
    ['tools: { disable: [git_commit], git_commit: { decision: allow } }\n', 'tools.disable'],
    ['tools: { disable: ["git_*"], git_commit: { decision: allow } }\n', 'tools.disable'],
    [`${ALLOW_COMMIT}rules: [{ id: mine, match: { tool: git_commit }, decision: ask, reason: r }]\n`, 'mine'],
    [`${ALLOW_COMMIT}rules: [{ id: mine, match: { tier: write }, decision: deny, reason: r }]\n`, 'mine'],
  ])('beside what says otherwise in the same file: %j', (text, id) => {
    expect(refusal(text)).toMatch(
      new RegExp(`tools\\.git_commit\\.decision: allow has no effect, since rule \`${id}\``),
    );
  });

  test('where the parent switches the tool off', () => {
    const parent = parse('open: [rules]\ntools: { disable: [git_commit] }\n');
    expect(refusal(ALLOW_COMMIT, parent)).toContain('allow has no effect, since rule `tools.disable`');
  });

  test.each(['unattended', 'strict', 'subagent', 'read-only'])('over `%s`, with the way that works', (name) => {
    const text = refusal(`extends: ${name}\n${ALLOW_COMMIT}`);
    expect(text).toContain(`${name} does not open \`rules\`; extend \`default\`, which does, and narrow that`);
  });

  test('where a parent closed the tool again after one that allowed it', () => {
    const first = parse(`open: [rules]\n${ALLOW_COMMIT}`);
    const second = parse('rules: [{ id: again, match: { tool: git_commit }, decision: ask, reason: r }]\n', first);
    expect(decision(second, COMMIT)).toBe('ask');
    expect(refusal(ALLOW_COMMIT, second)).toContain('rule `again`');
  });
});

describe('an asked or denied caller is told', () => {
  const told = (policy: Policy, example: string) => {
    const question = toQuestion(example);
    return suggest(decide(policy, question), policy, question);
  };

  test('how to allow a tool that `default` asks about', () => {
    expect(told(defaultPolicy, COMMIT)).toBe(
      'Write `tools: {git_commit: {decision: allow}}` in a policy file that extends `default`.',
    );
    expect(told(parse('extends: unattended\n'), COMMIT)).toContain('rule `no-commits`');
  });

  test('which tool does what a git command does', () => {
    expect(told(defaultPolicy, 'git status --short')).toContain('The tool `git_status` does it');
    expect(told(defaultPolicy, 'cd a && git diff | cat')).toContain('The tool `git_diff` does it');
    expect(told(defaultPolicy, 'git push')).not.toContain('The tool');
  });
});
