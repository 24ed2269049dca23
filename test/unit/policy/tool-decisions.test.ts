import { describe, expect, test } from 'vitest';
import type { Decision } from '../../../src/base/call.ts';
import { decide, decideTool } from '../../../src/policy/decide.ts';
import { suggest } from '../../../src/policy/explain.ts';
import { BUILT_IN, type PolicyError, parsePolicy } from '../../../src/policy/load.ts';
import { toQuestion } from '../../../src/policy/rule-examples.ts';
import type { Policy } from '../../../src/policy/schema.ts';
import { builtinTools } from '../../../src/tools/builtin.ts';
import type { Tool } from '../../../src/tools/tool.ts';
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
const careful = BUILT_IN.get('careful') as Policy;
const COMMIT = 'git_commit {"message": "x"}';
const ALLOW_COMMIT = 'tools: { git_commit: { decision: allow } }\n';

describe('`tools: {NAME: {decision: allow}}`', () => {
  test("a tool's decision overrides a rule of `careful` that asks about the tool", () => {
    expect(decision(careful, COMMIT)).toBe('ask');
    const policy = parse(ALLOW_COMMIT, careful);
    expect(decision(policy, COMMIT)).toBe('allow');
    expect(decideTool(policy, builtinTools.git_commit)).toBe('allow');
    expect(decision(policy, 'git commit -m x')).toBe('ask');
  });

  test("a tool's decision overrides a rule about several tools, which still holds for the others", () => {
    const parent = parse(`open: [rules]
rules: [{ id: history, match: { tool: "git_*" }, decision: deny, reason: r }]
`);
    const policy = parse(ALLOW_COMMIT, parent);
    expect([COMMIT, 'git_branch {"action": "list"}'].map((it) => decision(policy, it))).toEqual(['allow', 'deny']);
  });

  test("a tool's decision overrides rules about its tier or category", () => {
    const parent = parse(`open: [rules]
rules:
  - { id: writes, match: { tier: write }, decision: ask, reason: r }
  - { id: of-git, match: { category: [git, filesystem] }, decision: deny, reason: r }
`);
    const policy = parse('tools: { file_write: { decision: allow } }\n', parent);
    expect(decision(policy, 'file_write {"path": "a", "content": ""}')).toBe('allow');
    expect(decision(policy, 'file_edit {"path": "a", "edits": []}')).toBe('deny');
  });

  test("a tool's decision leaves rules about the effects of a call unchanged", () => {
    const policy = parse('tools: { file_read: { decision: allow }, file_write: { decision: allow } }\n');
    expect(decision(policy, 'file_read {"path": ".env"}')).toBe('deny');
    expect(decision(policy, 'file_write {"path": ".git/config", "content": ""}')).toBe('deny');
    expect(decision(policy, 'file_write {"path": "bare/HEAD", "content": ""}')).toBe('ask');
  });

  test("a tool's decision allows command lines that no rule can know, as the tier would", () => {
    const policy = parse('tools: { terminal_execute: { decision: allow } }\n', careful);
    for (const line of ['npm test', 'eval ls', '$x', 'curl x | sh', 'echo a > b'])
      expect([decision(careful, line), decision(policy, line)], line).toEqual(['ask', 'allow']);
    expect(decision(policy, 'rm -rf /')).toBe('deny');
    const terminal = questionOf({ tool: 'terminal_interactive', aliases: [], tier: 'execute' });
    const { command } = lineOf([], { unknown: ['what is typed means what the program takes it for'] });
    const typed = { ...terminal, ...(command && { command }) };
    expect(decide(policy, typed).decision).toBe('ask');
    const both = parse('tools: { terminal_interactive: { decision: allow } }\n', careful);
    expect(decide(both, typed).decision).toBe('allow');
  });

  test('a rule that only names the tool allows no unknown command', () => {
    const policy = policyOf([ruleOf('allow', { tool: 'terminal_execute' })], { tiers: { execute: 'ask' } });
    expect(decide(policy, lineOf(['ls'], { unknown: ['eval runs text'] })).decision).toBe('ask');
  });
});

describe('`tools: {NAME: {decision: allow}}` without an effect', () => {
  test.each([
    ['tools: { disable: [git_commit], git_commit: { decision: allow } }\n', 'tools.disable'],
    ['tools: { disable: ["git_*"], git_commit: { decision: allow } }\n', 'tools.disable'],
    [`${ALLOW_COMMIT}rules: [{ id: mine, match: { tool: git_commit }, decision: ask, reason: r }]\n`, 'mine'],
    [`${ALLOW_COMMIT}rules: [{ id: mine, match: { tier: write }, decision: deny, reason: r }]\n`, 'mine'],
  ])("a tool's decision is refused beside a contrary one in the same file: %j", (text, id) => {
    expect(refusal(text)).toMatch(
      new RegExp(`tools\\.git_commit\\.decision: allow has no effect, since rule \`${id}\``),
    );
  });

  test("a tool's decision is refused if the parent switches the tool off", () => {
    const parent = parse('open: [rules]\ntools: { disable: [git_commit] }\n');
    expect(refusal(ALLOW_COMMIT, parent)).toContain('allow has no effect, since rule `tools.disable`');
  });

  test.each(['unattended', 'strict', 'subagent', 'read-only'])(
    "a tool's decision over `%s` is refused, with the way that works",
    (name) => {
      const text = refusal(`extends: ${name}\n${ALLOW_COMMIT}`);
      expect(text).toContain(`${name} does not open \`rules\`; extend \`default\`, which does, and narrow that`);
    },
  );

  test("a tool's decision is refused if a parent closed the tool again after one that allowed it", () => {
    const first = parse(`open: [rules]\n${ALLOW_COMMIT}`);
    const second = parse('rules: [{ id: again, match: { tool: git_commit }, decision: ask, reason: r }]\n', first);
    expect(decision(second, COMMIT)).toBe('ask');
    expect(refusal(ALLOW_COMMIT, second)).toContain('rule `again`');
  });
});

describe('an asked or denied caller', () => {
  const told = (policy: Policy, example: string) => {
    const question = toQuestion(example);
    return suggest(decide(policy, question), policy, question);
  };

  test('a caller that `careful` asks about a tool learns how to allow the tool', () => {
    expect(told(careful, COMMIT)).toBe(
      'Write `tools: {git_commit: {decision: allow}}` in a policy file that extends `careful`.',
    );
    expect(told(parse('extends: unattended\n'), 'git push')).toContain('rule `no-publishing`');
  });

  test('a caller of a git command learns which tool does the same', () => {
    expect(told(careful, 'git status --short')).toContain('The tool `git_status` does it');
    expect(told(careful, 'cd a && git diff | cat')).toContain('The tool `git_diff` does it');
    expect(told(careful, 'git push')).not.toContain('The tool');
  });
});

test('lists say that tools ask which delete in each call, or ask under any policy', () => {
  const policy = parse('tiers: { write: { decision: allow, approve: [destructive] } }\n');
  const asking = (tool: object) => decideTool(policy, { ...builtinTools.file_write, ...tool });
  expect([{}, { destructive: 'deletes' }, { asks: true }].map(asking)).toEqual(['allow', 'ask', 'ask']);
  expect(decideTool(parse('tiers: { write: { decision: deny } }\n'), { ...builtinTools.file_write, asks: true })).toBe(
    'deny',
  );
  for (const tool of Object.values(builtinTools) as unknown as Tool[]) {
    const isDeleting = tool.examples
      .filter((it) => 'output' in it)
      .map(({ input }) => tool.effects(tool.input.parse(input) as never).some(({ kind }) => kind === 'delete'));
    const always = isDeleting.length > 0 && isDeleting.every(Boolean);
    expect([tool.name, tool.destructive === 'deletes']).toEqual([tool.name, always]);
  }
});
