/** The everyday tools as agents use them: under every alias, as listed, and in a large workspace. */
import { linkSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { ToolResult } from '../../src/base/call.ts';
import { type Client, createClient } from '../../src/client/client.ts';
import { builtinToolset, toolsOf } from '../../src/tools/registry.ts';
import { dataOf, openDaemon } from '../support/daemon.ts';
import { makeDatabase } from '../support/sqlite.ts';

/** Tools that are there without a profile of a model; test/daemon/tasks.test.ts has the alias of `task_delegate`. */
const TOOLS = toolsOf(builtinToolset()).filter((it) => it.name !== 'task_delegate');
/** The tool of each alias. */
const OWNERS = new Map(TOOLS.flatMap((it) => it.aliases.map((alias) => [alias.name, it.name])));

/** The error of requests under a policy that lists no host. */
const UNLISTED = { code: 'POLICY_DENIED', rule: 'tiers.external_api.network' };

/** For each alias, an input with its own parameters, and the expected answer. */
const BY_ALIAS: Record<string, [input: object, data: object]> = {
  rest_api_call: [{ url: 'https://example.org/', method: 'POST', body: { a: 1 }, timeout: 1000 }, UNLISTED],
  api_call: [{ url: 'https://example.org/' }, UNLISTED],
  webfetch: [{ url: 'https://example.org/', format: 'markdown' }, UNLISTED],
  duckduckgo: [{ query: 'kettles', max_results: 5 }, { code: 'UNSUPPORTED' }],
  websearch: [{ query: 'kettles' }, { code: 'UNSUPPORTED' }],
  npm_install: [{ package: '../x', projectPath: '.' }, { code: 'INPUT_INVALID' }],
  generate_code: [
    { template: 'typescript-module', parameters: { name: 'new' }, to: 'made', preview: true },
    { template: 'built in' },
  ],
  read_file: [{ path: 'a.txt', startLine: 2 }, { content: 'two\n' }],
  read: [{ filePath: 'a.txt', endLine: 1 }, { content: 'one\n' }],
  batch_read: [{ files: ['a.txt', 'none'] }, { files: [{ content: 'one\ntwo\n' }], errors: [{ code: 'NOT_FOUND' }] }],
  write_file: [
    { path: 'w1', content: 'x' },
    { path: 'w1', created: true },
  ],
  write: [
    { filePath: 'w2', content: 'x', mode: '600' },
    { path: 'w2', created: true },
  ],
  edit_file: [{ path: 'a.txt', operations: [{ type: 'insert', line: 3, content: '3' }] }, { appliedOperations: 1 }],
  edit: [{ filePath: 'a.txt', oldString: '3', newString: 'three', replaceAll: true }, { appliedOperations: 1 }],
  multiedit: [{ pattern: '*.txt', find: 'THREE', replace: '3', caseSensitive: false }, { totalReplacements: 1 }],
  delete_file: [{ path: 'w1' }, { deletedItems: 1 }],
  glob: [
    { pattern: '*.txt', sortBy: 'name' },
    { paths: ['a.txt'], total: 1 },
  ],
  grep: [{ pattern: 'T[w]o', recursive: true }, { matches: [{ file: 'a.txt', line: 2 }] }],
  search_code: [
    { pattern: 'two', filePattern: '*.txt', includeContext: true },
    { matches: [{ before: ['one'], after: ['3'] }] },
  ],
  list_files: [{ pattern: '*.txt' }, { entries: [{ path: 'a.txt' }] }],
  list_directory: [{ path: '.' }, { truncated: false }],
  list: [{ showHidden: true }, { entries: [{ path: '.hidden' }, { path: 'a.txt' }, { path: 'w2', mode: '0600' }] }],
  find_references: [{ symbol: 'nowhere' }, { code: 'NOT_FOUND' }],
  bash: [{ command: 'echo hi', description: 'Says hi.' }, { stdout: 'hi\n' }],
  execute_command: [
    { command: 'cat', stdin: 'in' },
    { stdout: 'in', exitCode: 0 },
  ],
  validate_json: [
    { data: '{}', schema: { required: ['a'] } },
    { valid: false, errors: [{ line: 1, column: 1 }] },
  ],
  todo: [{ todos: [{ content: 'x', status: 'completed' }] }, { metrics: { total: 1, percent: 100 } }],
  todowrite: [{ todos: [{ content: 'y', status: 'pending' }] }, { metrics: { total: 1, percent: 0 } }],
  todoread: [{}, { todos: [{ content: 'y' }] }],
  create_directory: [{ path: 'made' }, { path: 'made', created: true }],
  find_refs: [{ symbol: 'nowhere' }, { code: 'NOT_FOUND' }],
  search: [{ pattern: '*.txt' }, { files: [{ path: 'a.txt' }] }],
};

/** The same for the tools that read source code, in a workspace with the files of PROJECT. */
const BY_DATABASE_ALIAS: typeof BY_ALIAS = Object.fromEntries(
  ['query_database', 'supabase_query'].map((alias) => [
    alias,
    [{ connection: 'app', query: 'SELECT name FROM users WHERE id = ?', params: [1] }, { rows: [['Ada']] }],
  ]),
);

const BY_CODE_ALIAS: typeof BY_ALIAS = {
  parse_typescript: [{ code: 'export const a = 1;\n', filePath: 'a.ts' }, { exports: [{ name: 'a', line: 1 }] }],
  analyze_ast: [{ code: 'let a = 1;\n' }, { symbols: [{ name: 'a' }], ast: expect.any(Array) }],
  calculate_metrics: [{ path: 'area.ts' }, { complexity: { functions: [{ name: 'area', cyclomatic: 2 }] } }],
  type_check: [
    { projectPath: '.', strict: true },
    { success: true, errors: [] },
  ],
  refactor_code: [
    { path: 'area.ts', transformation: { operation: 'rename', symbol: 'area', newName: 'surface' } },
    { files: [{ path: 'area.ts' }, { path: 'use.ts' }] },
  ],
  analyze_dependencies: [
    { packageJsonPath: 'package.json' },
    { totalDeps: 1, vulnerabilities: 'not checked', outdated: 'not checked' },
  ],
};

const PROJECT = {
  'area.ts': 'export function area(a: number): number {\n  return a > 0 ? a : 0;\n}\n',
  'use.ts': "import { area } from './area.ts';\nexport const two = area(2);\n",
  'tsconfig.json': JSON.stringify({
    compilerOptions: { noEmit: true, module: 'nodenext', allowImportingTsExtensions: true },
  }),
  'package.json': JSON.stringify({ dependencies: { b: '^1.0.0' } }),
  'package-lock.json': JSON.stringify({
    lockfileVersion: 3,
    packages: { '': { dependencies: { b: '^1.0.0' } }, 'node_modules/b': { version: '1.2.3' } },
  }),
};

const call = (client: Client, tool: string, input: object) =>
  client.call(tool, input) as PromiseLike<ToolResult<Record<string, unknown>>>;

test('the aliases tested here are all that there are', () => {
  const tested = [BY_ALIAS, BY_DATABASE_ALIAS, BY_CODE_ALIAS].flatMap((it) => Object.keys(it));
  expect(tested.sort()).toEqual([...OWNERS.keys()].sort());
});

test.each([
  ['file, command and list tool', BY_ALIAS, { 'a.txt': 'one\ntwo\n', '.hidden': 'one\ntwo\n' }],
  ['database tool', BY_DATABASE_ALIAS, {}],
  ['code tool', BY_CODE_ALIAS, PROJECT],
])('every alias of a %s works with its own parameters, and reports the name of the tool', async (_, aliases, files) => {
  await using daemon = await openDaemon({
    policy: 'tiers:\n  external_api: { decision: allow }\n',
    config: { databases: { app: { kind: 'sqlite', path: 'app.db' } } },
  });
  if (aliases === BY_DATABASE_ALIAS)
    makeDatabase(
      join(daemon.workspace, 'app.db'),
      "CREATE TABLE users (id, name); INSERT INTO users VALUES (1, 'Ada')",
    );
  await using client = await daemon.connect();
  for (const [path, text] of Object.entries(files)) writeFileSync(join(daemon.workspace, path), text);
  for (const [alias, [input, expected]] of Object.entries(aliases)) {
    const result = await call(client, alias, input);
    expect(result.tool, alias).toBe(OWNERS.get(alias));
    expect(result.success ? result.data : result.error, alias).toMatchObject(expected);
  }
});

interface Listed {
  name?: string;
  tier?: string;
}

describe('the list of tools', () => {
  const listed = async (client: Client, params: object) =>
    ((await client.request('tools.list', params)) as { tools: Listed[] }).tools;

  test('the default list has at most 25 tools and 16 KB in each format for models; a request for all gets every tool', async () => {
    await using daemon = await openDaemon();
    await using client = await daemon.connect();
    const whole = (await listed(client, { format: 'ringfence' })).map((it) => it.name);
    expect(whole).toEqual(TOOLS.map((it) => it.name));
    for (const format of ['mcp', 'openai', 'anthropic']) {
      const tools = await listed(client, { format });
      expect(tools.length, format).toBeLessThanOrEqual(25);
      expect(Buffer.byteLength(JSON.stringify(tools)), format).toBeLessThanOrEqual(16_000);
      expect(
        (await listed(client, { format, tools: 'all' })).map((it) => it.name),
        format,
      ).toEqual(whole);
    }
  });

  test('a policy for thinking lists only tools that read, and no other runs by its name or an alias', async () => {
    await using daemon = await openDaemon();
    await using client = await createClient({
      socket: daemon.socket,
      workspace: daemon.workspace,
      policy: 'read-only',
    });
    const reading = toolsOf(builtinToolset()).filter(
      (it) => (it.tiers?.least ?? it.tier) === 'read_only' || it.name === 'git_branch',
    );
    const names = (await listed(client, { format: 'ringfence' })).map((it) => it.name);
    expect(reading.map((it) => it.name)).toEqual(expect.arrayContaining(names));
    expect(names).toContain('file_read');
    for (const [tool, input] of [
      ['write', { filePath: 'x', content: '' }],
      ['edit', { filePath: 'x', oldString: 'a', newString: 'b' }],
      ['todo', { todos: [] }],
      ['bash', { command: 'true' }],
    ] as const)
      expect(await call(client, tool, input), tool).toMatchObject({ error: { code: 'POLICY_DENIED' } });
  });
});

test('a workspace of 100 000 files is listed, searched, edited and commanded, within the bounds of each', {
  timeout: 180_000,
}, async () => {
  await using daemon = await openDaemon();
  await using client = await daemon.connect();
  const at = (path: string) => join(daemon.workspace, path);
  for (let folder = 0; folder < 100; folder++) {
    mkdirSync(at(`d${folder}`));
    writeFileSync(at(`d${folder}/f0.txt`), `needle ${folder}\n`);
    writeFileSync(at(`d${folder}/f1.txt`), '');
    for (let file = 2; file < 1000; file++) linkSync(at(`d${folder}/f1.txt`), at(`d${folder}/f${file}.txt`));
  }
  const data = (tool: string, input: object) => dataOf(call(client, tool, input));
  expect(await data('file_list', { recursive: true })).toMatchObject({ count: 5000, truncated: true });
  expect(await data('file_glob', { pattern: '**/*.txt' })).toMatchObject({ total: 100_000, truncated: true });
  expect(await data('file_glob', { pattern: 'd9?/f999.txt' })).toMatchObject({ total: 10, truncated: false });
  expect(await data('file_grep', { pattern: 'needle' })).toMatchObject({ count: 100, filesSearched: 100_000 });
  expect(await data('file_search', { content: 'needle', fileType: 'txt' })).toMatchObject({ totalMatches: 100 });
  expect(await data('file_read_many', { pattern: '**/f0.txt', maxFiles: 10 })).toMatchObject({ truncated: true });
  expect(await data('workspace_structure', { maxDepth: 1 })).toMatchObject({ files: 100_000, directories: 100 });
  expect(await data('file_multi_edit', { pattern: '**/*.txt', find: 'needle', replace: 'pin' })).toMatchObject({
    totalReplacements: 100,
    filesSearched: 100_000,
  });
  expect(await data('file_rename', { oldPath: 'd1', newPath: 'e1' })).toEqual({ newPath: 'e1' });
  expect(await data('file_delete', { path: 'd2', recursive: true })).toEqual({ deletedItems: 1001 });
  const counted = await data('terminal_execute', { command: 'grep -rl pin . | wc -l; find . -type f | wc -l' });
  expect(counted.stdout).toBe('99\n99000\n');
});
