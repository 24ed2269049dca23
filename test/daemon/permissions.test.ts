/** Files and directories whose permissions deny their owner what a call needs; root is exempt. */
import { chmodSync, chownSync, existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { ToolResult } from '../../src/base/call.ts';
import type { Client } from '../../src/client/client.ts';
import { IDENTITIES } from '../support/arena.ts';
import { dataOf, startDaemon, type TestDaemon, until } from '../support/daemon.ts';

const identity = IDENTITIES.find((it) => it.name === 'an unprivileged user');
const owner = identity?.daemon;

let daemon: TestDaemon;
let client: Client;
beforeAll(async () => {
  if (!identity) return;
  const limits = { indexSweepMs: 100, indexUnwatchedMs: 100 };
  daemon = await startDaemon({ limits, ...(owner && { owner }) });
  client = await daemon.connect();
});
afterAll(async () => {
  if (!identity) return;
  await client[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});

const at = (path: string) => join(daemon.workspace, path);
const call = (tool: string, input: object) =>
  client.call(tool, input) as PromiseLike<ToolResult<Record<string, unknown>>>;
const modeOf = (path: string) => statSync(at(path)).mode & 0o777;
const DENIED = {
  error: { code: 'ACCESS_DENIED', message: expect.stringMatching(/^the permissions of `.*` do not allow this$/) },
};

function put(path: string, content: string | undefined): void {
  if (content === undefined) mkdirSync(at(path));
  else writeFileSync(at(path), content);
  if (owner) chownSync(at(path), owner.uid, owner.gid);
}

test.skipIf(!identity)('a file that is read-only is replaced as others are, and stays read-only', async () => {
  put('kept', 'one\n');
  chmodSync(at('kept'), 0o444);
  const replace = { type: 'replace', search: 'one', replace: 'two' };
  await dataOf(call('file_edit', { path: 'kept', operations: [replace] }));
  await dataOf(call('file_multi_edit', { pattern: 'kept', find: 'two', replace: 'three' }));
  expect([readFileSync(at('kept'), 'utf8'), modeOf('kept')]).toEqual(['three\n', 0o444]);
  await dataOf(call('file_write', { path: 'kept', content: 'four\n' }));
  expect([readFileSync(at('kept'), 'utf8'), modeOf('kept')]).toEqual(['four\n', 0o444]);
});

test.skipIf(!identity)(
  'a file that may not be read is ACCESS_DENIED, and does not fail what reads others too',
  async () => {
    put('locked', 'x\n');
    put('open.txt', 'x\n');
    chmodSync(at('locked'), 0);
    for (const tool of ['file_read', 'file_edit', 'file_grep', 'data_validate']) {
      const more = {
        file_edit: { operations: [{ type: 'delete', startLine: 1, endLine: 1 }] },
        file_grep: { pattern: 'x' },
      };
      const result = await call(tool, { path: 'locked', ...more[tool as keyof typeof more] });
      // ripgrep does not report unreadable files.
      if (tool !== 'file_grep') expect(result, tool).toMatchObject(DENIED);
    }
    expect(await dataOf(call('file_read_many', { paths: ['locked', 'open.txt'] }))).toMatchObject({
      files: [{ path: 'open.txt' }],
      errors: [{ path: 'locked', code: 'ACCESS_DENIED' }],
    });
    expect(await dataOf(call('file_multi_edit', { pattern: '*', find: 'x', replace: 'y' }))).toMatchObject({
      files: [{ path: 'open.txt' }],
      skipped: [{ path: 'locked', code: 'ACCESS_DENIED' }],
    });
  },
);

test.skipIf(!identity)(
  'a change in a directory that may not be written is refused with the reason, and changes nothing',
  async () => {
    put('fixed', undefined);
    put('fixed/in', 'x\n');
    put('beside', 'x\n');
    chmodSync(at('fixed'), 0o555);
    for (const [tool, input] of [
      ['file_write', { path: 'fixed/in', content: 'y' }],
      ['file_write', { path: 'fixed/new/deep', content: 'y' }],
      ['file_edit', { path: 'fixed/in', operations: [{ type: 'delete', startLine: 1, endLine: 1 }] }],
      ['file_multi_edit', { pattern: '*', path: 'fixed', find: 'x', replace: 'y' }],
      ['file_delete', { path: 'fixed/in' }],
      ['file_delete', { path: 'fixed', recursive: true }],
      ['file_rename', { oldPath: 'fixed/in', newPath: 'out' }],
      ['file_rename', { oldPath: 'beside', newPath: 'fixed/beside' }],
      ['file_copy', { sourcePath: 'beside', destPath: 'fixed/beside' }],
    ] as const)
      expect(await call(tool, input), `${tool} ${JSON.stringify(input)}`).toMatchObject(DENIED);
    expect(readFileSync(at('fixed/in'), 'utf8') + readFileSync(at('beside'), 'utf8')).toBe('x\nx\n');
    expect(existsSync(at('out'))).toBe(false);
    chmodSync(at('fixed'), 0o755);
  },
);

test.skipIf(!identity).each([
  ['whose names may be read, and nothing more', 0o444],
  ['whose files may be opened, and not listed', 0o111],
  ['that nobody may look into', 0],
])('a directory %s is refused, and keeps nothing else from being done', async (_, mode) => {
  const name = `shut${mode}`;
  for (const folder of [name, `${name}/sub`]) put(folder, undefined);
  for (const file of [`${name}/in`, `${name}/.env`, `beside${mode}.txt`]) put(file, 'needle\n');
  chmodSync(at(name), mode);
  await until(async () => (await call('terminal_execute', { command: 'true' })).success);
  expect(await call('terminal_execute', { command: `chmod 755 ${name}; cat ${name}/.env` })).not.toMatchObject({
    data: { stdout: expect.stringContaining('needle') },
  });
  for (const [tool, input] of [
    ['file_glob', { pattern: '*' }],
    ['file_grep', { pattern: 'needle' }],
    ['workspace_structure', {}],
    ['git_status', {}],
  ] as const)
    expect(await call(tool, { path: name, ...input }), tool).toMatchObject(DENIED);
  // Lists names only, until its host masks the directory as a whole.
  const names = await call('file_list', { path: name });
  expect(['ACCESS_DENIED', ...(mode === 0o444 ? ['names'] : [])]).toContain(names.success ? 'names' : names.error.code);
  const listed = await dataOf(call('file_list', { recursive: true }));
  expect(listed.entries).toEqual(expect.arrayContaining([expect.objectContaining({ path: name, type: 'directory' })]));
  expect(await dataOf(call('file_grep', { pattern: 'needle' }))).toMatchObject({
    matches: expect.arrayContaining([expect.objectContaining({ file: `beside${mode}.txt` })]),
  });
  expect(await dataOf(call('file_search', { pattern: '**', content: 'needle' }))).toMatchObject({ truncated: false });
  chmodSync(at(name), 0o755);
});

test.runIf(process.getuid?.() === 0)(
  'a command that fails on a file of another user is told so, and one that fails on its own is not',
  async () => {
    await using rooted = await startDaemon();
    await using agent = await rooted.connect();
    const theirs = join(rooted.workspace, 'theirs');
    mkdirSync(theirs);
    writeFileSync(join(theirs, 'file'), 'x\n');
    for (const it of [theirs, join(theirs, 'file')]) chownSync(it, 64_123, 64_123);
    const warningsOf = async (command: string) => (await agent.call('terminal_execute', { command })).metadata.warnings;
    for (const command of ['echo x >>theirs/file', 'rm theirs/file', 'chmod 600 theirs', 'touch theirs/new'])
      expect([command, await warningsOf(command)]).toEqual([
        command,
        [expect.stringMatching(/^theirs(\/\w+)? belongs to another user/)],
      ]);
    for (const command of [
      'touch /etc/x',
      'touch own; chmod 400 own; echo x >>own',
      'echo "a\\0b: Permission denied" >&2; false',
    ])
      expect([command, await warningsOf(command)]).toEqual([command, undefined]);
  },
);
