import { expect, test } from 'vitest';
import { compileMatch, toPart, YES } from '../../../src/policy/match.ts';
import type { PolicyQuestion } from '../../../src/policy/question.ts';
import { withoutIgnoreCase } from '../../../src/policy/schema/ignore-case.ts';
import type { WrittenMatch } from '../../../src/policy/schema/match.ts';
import { policyFile } from '../../../src/policy/schema/policy-file.ts';

const question: PolicyQuestion = {
  tool: 't',
  aliases: [],
  tier: 'read_only',
  category: '',
  destructive: false,
  effects: [],
  principal: '',
  session: '',
  home: '/home/me',
};
const matches = (match: WrittenMatch, path: string) =>
  compileMatch(withoutIgnoreCase(match)).test(toPart(question, 'read', path)) === YES;

test.each([
  ['**/*.env', 'a/b.ENV', true],
  ['**/*.env', 'a/b.EnV', true],
  ['**/.{ssh,aws}/**', 'x/.Ssh/id', true],
  ['**/*.p12', 'A.P12', true],
  ['straße/*', 'STRAßE/x', true],
  ['\\a\\*', 'A*', true],
  ['\\a\\*', 'Ab', false],
  ['~/.netrc', '/home/me/.NETRC', true],
])('%s holds for %s: %s', (path, target, holds) => {
  expect(matches({ path, ignoreCase: true }, target)).toBe(holds);
});

test('case counts where the key is not, also in the `not` of a match that has it', () => {
  expect(matches({ path: '**/*.env' }, 'a.ENV')).toBe(false);
  const match = { path: '**/*secret*', ignoreCase: true, not: { path: '**/*.ts' } } as const;
  expect(matches(match, 'A-SECRET.txt')).toBe(true);
  expect(matches(match, 'secret.TS')).toBe(true);
  expect(matches(match, 'secret.ts')).toBe(false);
});

test.each([
  ['without a path', { tool: 'x', ignoreCase: true }],
  ['with brackets, whose ranges would mean something else', { path: '[a-f]*', ignoreCase: true }],
  ['but for true', { path: 'a', ignoreCase: false }],
])('the key is refused %s', (_, match) => {
  const file = { version: 1, rules: [{ id: 'r', match, decision: 'deny', reason: 'x' }] };
  expect(policyFile.safeParse(file).success).toBe(false);
});
