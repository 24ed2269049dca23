/**
 * Searching tools by words. The fixtures hold tasks as issues of public projects word them, each with the tools that carry it out and
 * its issue: 90 by which the words were tuned, and 30 that were gathered afterwards and tried once. Right tool among the first three
 * before words were weighted and people's words known: 61 of 90, and 19 of the 30; since: 89 of 90, and 30 of the 30.
 */
import { readFileSync } from 'node:fs';
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

type Task = readonly [query: string, tools: readonly string[], from: string];
test.each(['tuned', 'unseen'])(
  'the right tool is among the first three for at least 90 %% of the tasks: %s',
  (name) => {
    const file = new URL(`../../../fixtures/tool-search/${name}.json`, import.meta.url);
    const known = new Set(builtins.map((it) => it.name));
    // A capability that is taken out takes its tasks along.
    const tasks = (JSON.parse(readFileSync(file, 'utf8')) as Task[]).filter(([, tools]) =>
      tools.some((it) => known.has(it)),
    );
    const missed = tasks.filter(
      ([query, tools]) =>
        !namesFor(query)
          .slice(0, 3)
          .some((it) => tools.includes(it)),
    );
    expect(missed.length / tasks.length, JSON.stringify(missed)).toBeLessThanOrEqual(0.1);
  },
);

test('a tool that succeeded after such searches comes first, and says so', () => {
  const learned = new Map([['file_copy', { likeness: 0.75, times: 3 }]]);
  const [first] = searchTools(builtins, { query: 'generate a template' }, learned).tools;
  expect(first).toMatchObject({ name: 'file_copy', why: 'called here after such searches, with success: 3×' });
});
