import { expect, test } from 'vitest';
import type { ListedTool } from '../../../../src/tools/capability.ts';
import { builtinToolset, toolsOf, toToolInfo } from '../../../../src/tools/registry.ts';
import { FOUND_TOOLS_MAX, searchTools } from '../../../../src/tools/tools/find.ts';

const builtins = toolsOf(builtinToolset()).map((it) => toToolInfo(it, 'allow'));
const namesFor = (query: string, tools: readonly ListedTool[] = builtins, category?: string) =>
  searchTools(tools, { query, category }).tools.map((it) => it.name);

test.each([
  ['rename symbol', 'code_refactor'],
  ['commit changes', 'git_commit'],
  ['screenshot of a page', 'web_screenshot'],
  ['RUN COMMAND', 'terminal_execute'],
  ['todos', 'todo_read'],
  ['lint', 'code_lint'],
])('%s finds %s among the first three', (query, name) => {
  expect(namesFor(query).slice(0, 3)).toContain(name);
});

test('names come before descriptions, more words before fewer, and equals by name', () => {
  const tool = (name: string, description: string): ListedTool => ({
    name,
    title: '',
    description,
    category: 'api',
    inputSchema: {},
    capabilities: [],
  });
  const tools = [
    tool('z', 'Creates an issue.'),
    tool('b_issue', 'No more.'),
    tool('a_issue', 'No more.'),
    tool('y', 'Sends a letter.'),
  ];
  expect(namesFor('create issue', tools)).toEqual(['z', 'a_issue', 'b_issue']);
  expect(namesFor('create issue', tools, 'database')).toEqual([]);
  expect(namesFor('...', tools)).toEqual([]);
});

test('many matches are cut, and counted', () => {
  const many = Array.from({ length: 200 }, (_, at) => ({ ...builtins[0], name: `issue_${at}` }) as ListedTool);
  const { tools, total } = searchTools(many, { query: 'issue' });
  expect([tools.length, total]).toEqual([FOUND_TOOLS_MAX, 200]);
});

test('a summary is the first sentence, in a line', () => {
  const tool = { ...builtins[0], name: 'x', description: `Makes\n things. ${'More. '.repeat(100)}` } as ListedTool;
  expect(searchTools([tool], { query: 'x' }).tools).toEqual([{ name: 'x', summary: 'Makes things.' }]);
});
