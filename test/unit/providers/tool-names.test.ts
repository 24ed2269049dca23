import { expect, test } from 'vitest';
import { toolName } from '../../../src/services/providers/tool-names.ts';

test('a name is provider__tool in letters that every API takes', () => {
  expect(toolName('github', 'create_issue', new Set())).toBe('github__create_issue');
  expect(toolName('github', 'repos/create-issue.v2', new Set())).toBe('github__repos_create_issue_v2');
});

test('a name that another tool has is not given again, and no name is too long', () => {
  const taken = new Set(['a__get_sum']);
  const other = toolName('a', 'get-sum', taken);
  expect(other).toMatch(/^a__get_sum_[0-9a-f]{8}$/);
  expect(toolName('a', 'get-sum', taken)).toBe(other);
  const names = ['x'.repeat(128), `${'x'.repeat(127)}y`].map((tool) => toolName('a', tool, new Set()));
  expect(new Set(names).size).toBe(2);
  for (const name of names) expect(name).toMatch(/^[a-zA-Z0-9_]{64}$/);
});
