/** Calls names and parameters that agents know from other tools' documentation, through a real daemon. */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { type OpenDaemon, openDaemon } from '../support/daemon.ts';

const ALLOW = `rules:
  - { id: commits, match: { tool: git_commit }, decision: allow, reason: These tests commit. }
`;

let daemon: OpenDaemon;
let client: Client;
const at = (name: string) => join(daemon.workspace, name);
const text = (name: string) => readFileSync(at(name), 'utf8');
const git = (folder: string, ...args: string[]) => execFileSync('git', args, { cwd: at(folder), encoding: 'utf8' });

beforeAll(async () => {
  daemon = await openDaemon({ policy: ALLOW });
  client = await daemon.connect();
});
afterAll(async () => {
  await client[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});

beforeEach(() => {
  for (const name of readdirSync(daemon.workspace)) rmSync(at(name), { recursive: true });
  mkdirSync(at('lib/inner'), { recursive: true });
  writeFileSync(at('lib/hello.ts'), "export function greet() { return 'hello'; }\n");
  writeFileSync(at('lib/inner/deep.ts'), "export const deep = 'hello';\n");
  writeFileSync(at('notes.txt'), 'first line\nsecond line\n');
});

/** The data and the warnings of a call that must succeed. */
async function answerOf(tool: string, input: object): Promise<{ data: Record<string, unknown>; warnings: string[] }> {
  const result = await client.call(tool as string, input as never);
  if (!result.success) throw new Error(`${tool}: ${result.error.code}: ${result.error.message}`);
  return { data: result.data as Record<string, unknown>, warnings: result.metadata.warnings ?? [] };
}

const codeOf = async (tool: string, input: object): Promise<string | undefined> => {
  const result = await client.call(tool as string, input as never);
  return result.success ? undefined : result.error.code;
};

test.each([
  ['search', { content: 'hello' }, 'file_search'],
  ['find_refs', { symbol: 'greet' }, 'workspace_find_references'],
  ['todowrite', { todos: [{ content: 'Write a test' }] }, 'todo_write'],
  ['todoread', {}, 'todo_read'],
  ['create_directory', { path: 'new/one' }, 'file_make_directory'],
])('%s is another name of a tool that is there', async (name, input, tool) => {
  expect(await client.call(name as string, input as never)).toMatchObject({ success: true, tool });
});

test('create_directory makes what is missing, is content with what is there, and is undone', async () => {
  const made = await client.call('create_directory' as string, { path: 'new/one' } as never);
  expect(made).toMatchObject({ success: true, data: { path: 'new/one', created: true } });
  expect(existsSync(at('new/one'))).toBe(true);
  expect(made.metadata.filesChanged).toEqual([
    { path: 'new/', kind: 'create' },
    { path: 'new/one/', kind: 'create' },
  ]);
  expect((await answerOf('create_directory', { path: 'new/one' })).data).toMatchObject({ created: false });
  expect(await codeOf('create_directory', { path: 'notes.txt' })).toBe('ALREADY_EXISTS');
  expect(await codeOf('create_directory', { path: '../beside' })).toBe('ACCESS_DENIED');
  expect(await codeOf('create_directory', { path: '.git/hooks/x' })).toBe('POLICY_DENIED');
  await client.undo(made.callId);
  expect(existsSync(at('new'))).toBe(false);
});

test.each(['file_write', 'write_file'])('%s takes createDirectories and encoding utf8', async (name) => {
  const wanted = { path: 'a/b.txt', content: 'ä', encoding: 'utf8' };
  expect(await codeOf(name, { ...wanted, createDirectories: false })).toBe('NOT_FOUND');
  await answerOf(name, { ...wanted, createDirectories: true });
  expect(text('a/b.txt')).toBe('ä');
  expect((await answerOf('read_file', { path: 'a/b.txt', encoding: 'utf8' })).data).toMatchObject({
    content: 'ä',
    encoding: 'utf-8',
  });
});

test.each([
  ['edit', { filePath: 'notes.txt', old_string: 'second', new_string: '2nd' }],
  ['edit', { file_path: 'notes.txt', old_string: 'second', new_string: '2nd', replace_all: true }],
  ['edit', { file_path: 'notes.txt', oldText: 'second', newText: '2nd' }],
  ['file_edit', { path: 'notes.txt', operations: [{ oldText: 'second', newText: '2nd' }] }],
  ['file_edit', { path: 'notes.txt', operations: [{ old_string: 'second', new_string: '2nd', replace_all: true }] }],
  ['file_edit', { path: 'notes.txt', operations: [{ search: 'second', replace: '2nd' }] }],
  ['file_edit', { path: 'notes.txt', operations: [{ type: 'replace', oldText: 'second', newText: '2nd' }] }],
  ['edit_file', { path: 'notes.txt', old_string: 'second', new_string: '2nd' }],
  ['edit_file', { path: 'notes.txt', oldText: 'second', newText: '2nd' }],
  ['edit_file', { path: 'notes.txt', edits: [{ oldText: 'second', newText: '2nd' }] }],
  ['edit_file', { path: 'notes.txt', operations: [{ type: 'replace', search: 'second', replace: '2nd' }] }],
])('%s takes %j', async (name, input) => {
  await answerOf(name, input);
  expect(text('notes.txt')).toBe('first line\n2nd line\n');
});

test.each([
  ['a name that no editor has', [{ find: 'second', with: '2nd' }]],
  ['both names of one text', [{ oldText: 'second', search: 'first', newText: '2nd' }]],
  ['no list', 'second'],
])('file_edit that is given %s changes nothing and shows how an operation looks', async (_, operations) => {
  const result = await client.call('file_edit', { path: 'notes.txt', operations } as never);
  if (result.success) throw new Error('it was taken');
  expect(result.error.code).toBe('INPUT_INVALID');
  expect(result.error.suggestion).toBe(
    'operations is ({type: "replace", search: string, replace: string, all?: boolean}|' +
      '{type: "insert", line: number, content: string}|{type: "delete", startLine: number, endLine: number})[]',
  );
  expect(text('notes.txt')).toBe('first line\nsecond line\n');
});

test('edit_file with dryRun changes nothing', async () => {
  const edits = [{ oldText: 'second', newText: '2nd' }];
  const { data } = await answerOf('edit_file', { path: 'notes.txt', edits, dryRun: true });
  expect(data.diff).toMatch(/\+2nd line/);
  expect(text('notes.txt')).toBe('first line\nsecond line\n');
});

test.each([true, false])('createBackup: %s makes no file and says what brings the old content back', async (wanted) => {
  const input = { filePath: 'notes.txt', oldString: 'second', newString: '2nd', createBackup: wanted };
  const { warnings } = await answerOf('edit', input);
  expect(warnings).toEqual([expect.stringMatching(/createBackup.*calls\.undo/)]);
  expect(readdirSync(daemon.workspace).sort()).toEqual(['lib', 'notes.txt']);
});

test('bash runs the shell that shell names', async () => {
  const { data } = await answerOf('bash', { command: 'echo "$0"', shell: 'sh' });
  expect(data.stdout).toBe('sh\n');
  expect((await answerOf('bash', { command: 'echo "$0"', shell: '/bin/bash' })).data.stdout).toBe('/bin/bash\n');
  expect(await codeOf('bash', { command: 'true', shell: 'powershell' })).toBe('INPUT_INVALID');
});

test('grep with recursive: false looks into the files of the directory and no deeper', async () => {
  const files = async (recursive: boolean) =>
    ((await answerOf('grep', { pattern: 'hello', path: 'lib', recursive })).data.matches as { file: string }[]).map(
      (it) => it.file,
    );
  expect(await files(false)).toEqual(['lib/hello.ts']);
  expect(await files(true)).toEqual(['lib/hello.ts', 'lib/inner/deep.ts']);
  expect((await answerOf('grep', { pattern: 'line', path: 'notes.txt', recursive: false })).data.count).toBe(2);
});

/** Makes a repository with one commit and an uncommitted change. */
function makeRepository(folder: string): void {
  mkdirSync(at(folder), { recursive: true });
  writeFileSync(at(`${folder}/a.txt`), 'one\n');
  git(folder, 'init', '-q', '-b', 'main');
  git(folder, 'config', 'user.name', 'Ada');
  git(folder, 'config', 'user.email', 'ada@example.org');
  git(folder, 'add', '-A');
  git(folder, 'commit', '-qm', 'first');
  writeFileSync(at(`${folder}/a.txt`), 'two\n');
}

test.each(['path', 'projectPath'])('git_commit takes %s, and files: [] for all that git knows', async (key) => {
  makeRepository('project');
  const { data } = await answerOf('git_commit', { message: 'Change it', [key]: 'project', files: [] });
  expect(data).toMatchObject({ filesChanged: 1 });
  expect(git('project', 'log', '-1', '--format=%s').trim()).toBe('Change it');
  writeFileSync(at('project/a.txt'), 'three\n');
  // Named relative to the project, while files are relative to the workspace: it could be another repository's.
  writeFileSync(at('a.txt'), 'not it\n');
  const astray = { message: 'Change it', [key]: 'project', files: ['a.txt'] };
  expect(await codeOf('git_commit', astray)).toBe('INPUT_INVALID');
});

test('git_status takes projectPath', async () => {
  makeRepository('project');
  expect((await answerOf('git_status', { projectPath: 'project' })).data).toMatchObject({ clean: false });
});

test('terminal_interactive without an action opens a terminal, and reads the one that it names', async () => {
  const { data } = await answerOf('terminal_interactive', { cwd: 'lib' });
  expect(data).toMatchObject({ ready: true, sessionId: expect.any(String) as unknown });
  const { sessionId } = data as { sessionId: string };
  expect((await answerOf('terminal_interactive', { sessionId })).data).toMatchObject({ sessionId, ready: true });
  expect((await answerOf('terminal_interactive', { action: 'list' })).data.terminals).toHaveLength(1);
  await answerOf('terminal_interactive', { action: 'close', sessionId });
});

test.each(['list_files', 'list', 'list_directory'])(
  '%s gives the paths of files in a list of their own',
  async (name) => {
    const { data } = await answerOf(name, { path: 'lib', recursive: true });
    expect(data.files).toEqual(['lib/hello.ts', 'lib/inner/deep.ts']);
  },
);

test('a parameter under two of its names at once is refused', async () => {
  const both = { path: 'notes.txt', content: '', createDirs: true, createDirectories: false };
  expect(await codeOf('write_file', both)).toBe('INPUT_INVALID');
  expect(text('notes.txt')).toBe('first line\nsecond line\n');
});
