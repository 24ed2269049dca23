/** calls.undo through a real daemon: what it restores, what it refuses, who may. */
import { execFile } from 'node:child_process';
import { chmodSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Client, createClient } from '../../src/client/client.ts';
import { openDaemon, ringfence, startDaemon, type TestDaemon } from '../support/daemon.ts';
import { treeWithModes } from '../support/workspace.ts';

let daemon: TestDaemon;
let client: Client;

beforeAll(async () => {
  daemon = await startDaemon({
    config: { principals: { nightly: { policy: 'read-only' } } },
  });
  client = await daemon.connect();
});
afterAll(async () => {
  await client[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});

const at = (path: string) => join(daemon.workspace, path);
const tree = () => treeWithModes(daemon.workspace);

interface Answer {
  callId: string;
  restored: string[];
  conflicts: string[];
  merged: string[];
  undo: string;
  error?: { code: string; message: string };
}
const undo = (callId: string, force = false, by = client) =>
  by.request('calls.undo', { callId, force }) as Promise<Answer>;

async function done(tool: string, input: object): Promise<string> {
  const result = await client.call(tool as 'file_write', input as never);
  expect(result).toMatchObject({ success: true, metadata: { undo: 'full' } });
  return result.callId;
}

test('each tool that changes files is taken back, byte for byte, with modes and links, and the undo is taken back too', async () => {
  mkdirSync(at('src/deep'), { recursive: true });
  writeFileSync(at('src/a.txt'), 'one\r\ntwo\r\n');
  writeFileSync(at('src/b.txt'), 'two');
  writeFileSync(at('src/deep/run.sh'), '#!/bin/sh\n');
  writeFileSync(at('src/a.ts'), 'export const one = f(1);\n');
  writeFileSync(at('src/deep/b.tsx'), "import { one } from '../a';\r\nf(one);\r\n");
  chmodSync(at('src/deep/run.sh'), 0o750);
  symlinkSync('../a.txt', at('src/deep/link'));
  symlinkSync('/nonexistent', at('dangling'));
  const calls: [string, object][] = [
    ['file_write', { path: 'src/a.txt', content: 'new', mode: '0600' }],
    ['file_write', { path: 'made/on/the/way.txt', content: 'x' }],
    ['file_edit', { path: 'src/b.txt', operations: [{ type: 'replace', search: 'two', replace: '2' }] }],
    ['code_refactor', { operation: 'rename', path: 'src/deep/b.tsx', symbol: 'one', newName: 'uno' }],
    ['code_refactor', { operation: 'move_file', path: 'src/a.ts', to: 'src/moved/on/c.ts' }],
    ['file_multi_edit', { pattern: '*', find: 'n', replace: 'N', path: 'src' }],
    ['code_rewrite', { pattern: 'f($A)', rewrite: 'g($A)', language: 'typescript', path: 'src' }],
    ['code_generate', { template: 'python-module', parameters: { name: 'Own part' }, to: 'made/parts' }],
    ['file_rename', { oldPath: 'src/a.txt', newPath: 'src/b.txt', overwrite: true }],
    ['file_rename', { oldPath: 'src', newPath: 'there/lib' }],
    ['file_copy', { sourcePath: 'there', destPath: 'copy' }],
    ['file_write', { path: 'copy/lib/deep/own.txt', content: 'stays' }],
    ['file_write', { path: 'copy/lib/deep/run.sh', content: 'other', mode: '0600' }],
    ['file_write', { path: 'there/lib/fresh/new.txt', content: 'comes' }],
    ['file_copy', { sourcePath: 'there', destPath: 'copy', overwrite: true }],
    ['file_delete', { path: 'there', recursive: true }],
    ['file_delete', { path: 'dangling' }],
    ['file_delete', { path: 'copy/lib/deep/run.sh' }],
  ];
  const trees = [tree()];
  const ids: string[] = [];
  for (const [tool, input] of calls) {
    ids.push(await done(tool, input));
    trees.push(tree());
  }
  for (const [index, id] of [...ids.entries()].reverse()) {
    const answer = await undo(id);
    expect(answer, calls[index]?.[0]).toMatchObject({ conflicts: [], undo: 'full' });
    expect(tree(), calls[index]?.[0]).toEqual(trees[index]);
    expect(await undo(answer.callId)).toMatchObject({ conflicts: [] });
    expect(tree(), `again ${calls[index]?.[0]}`).toEqual(trees[index + 1]);
    expect(await undo(id)).toMatchObject({ conflicts: [] });
    expect(tree()).toEqual(trees[index]);
    expect(await undo(id)).toMatchObject({ restored: [], conflicts: [], undo: 'none' });
  }
});

test('an undo of an undo of an undo is one, too, where the call had made directories', async () => {
  const before = tree();
  let id = await done('file_write', { path: 'fresh/deep/a.txt', content: 'x' });
  const after = tree();
  for (const expected of [before, after, before, after, before]) {
    const answer = await undo(id);
    expect(answer).toMatchObject({ conflicts: [], undo: 'full' });
    expect(tree()).toEqual(expected);
    id = answer.callId;
  }
});

test('files that somebody put into a restored directory stay', async () => {
  const first = await undo(await done('file_write', { path: 'fresh/a.txt', content: 'x' }));
  const second = await undo(first.callId);
  writeFileSync(at('fresh/mine.txt'), 'mine');
  expect(await undo(second.callId, true)).toMatchObject({ conflicts: [] });
  expect(Object.keys(tree()).filter((it) => it.startsWith('fresh'))).toEqual(['fresh', 'fresh/mine.txt']);
  rmSync(at('fresh'), { recursive: true });
});

test("a call can be undone by its principal's other sessions and by an operator, not by another principal", async () => {
  await using other = await daemon.connect();
  await using operator = await daemon.connect({ role: 'operator' });
  const token = readFileSync(join(daemon.stateDir, 'tokens/nightly.token'), 'utf8').trim();
  await using nightly = await createClient({ socket: daemon.socket, workspace: daemon.workspace, token });
  const first = await done('file_write', { path: 'shared', content: '1' });
  const second = await done('file_write', { path: 'shared', content: '2' });
  const unknown = await nightly.request('calls.undo', { callId: 'no-such-call' }).catch((it: Error) => it.message);
  expect(unknown).toMatch(/no call no-such-call/);
  await expect(nightly.request('calls.undo', { callId: first })).rejects.toThrow(`no call ${first}`);
  expect(await undo(second, false, other)).toMatchObject({ restored: ['shared'] });
  expect(readFileSync(at('shared'), 'utf8')).toBe('1');
  expect(await undo(first, false, operator)).toMatchObject({ restored: ['shared'] });
  expect(readdirSync(daemon.workspace)).not.toContain('shared');
});

test('calls that changed no file say why they can not be undone', async () => {
  writeFileSync(at('read'), '');
  const read = await client.call('file_read', { path: 'read' });
  expect(await undo(read.callId)).toMatchObject({
    error: { code: 'UNSUPPORTED', message: expect.stringContaining('changed no file') },
  });
  const failed = await client.call('file_write', { path: 'read', content: '', overwrite: false });
  expect(failed).toMatchObject({ success: false, metadata: { undo: 'none' } });
  expect(await undo(failed.callId)).toMatchObject({ error: { code: 'UNSUPPORTED' } });
});

test('undo of files that changed since is refused with their paths, merged where it is clean, and overwrites them when forced', async () => {
  const text = 'a\nb\nc\nd\ne\nf\n';
  writeFileSync(at('text'), text);
  const id = await done('file_edit', { path: 'text', operations: [{ type: 'replace', search: 'b', replace: 'B' }] });
  writeFileSync(at('text'), text.replace('b', 'X'));
  expect(await undo(id)).toMatchObject({ restored: [], conflicts: ['text'], undo: 'none' });
  expect(readFileSync(at('text'), 'utf8')).toBe(text.replace('b', 'X'));
  writeFileSync(at('text'), text.replace('b', 'B').replace('e', 'E'));
  const merged = await undo(id);
  expect(merged).toMatchObject({ restored: ['text'], merged: ['text'], conflicts: [], undo: 'full' });
  expect(readFileSync(at('text'), 'utf8')).toBe(text.replace('e', 'E'));
  await undo(merged.callId);
  writeFileSync(at('text'), 'something else');
  expect(await undo(id, true)).toMatchObject({ restored: ['text'], conflicts: ['text'] });
  expect(readFileSync(at('text'), 'utf8')).toBe(text);
});

test('a policy that refuses the path by now refuses the undo, one that asks asks, and both are on record', async () => {
  await using other = await openDaemon();
  await using agent = await other.connect();
  await using operator = await other.connect({ role: 'operator' });
  const inOther = (path: string) => join(other.workspace, path);
  writeFileSync(inOther('a'), 'old');
  const { callId } = await agent.call('file_write', { path: 'a', content: 'new' });
  const answer = () => agent.request('calls.undo', { callId, force: true }) as Promise<Answer>;
  for (const [decision, code] of [
    ['deny', 'POLICY_DENIED'],
    ['ask', 'APPROVAL_DENIED'],
  ]) {
    const rule = `- { id: no-a, match: { write: "a" }, decision: ${decision}, reason: Not this one. }`;
    writeFileSync(join(other.stateDir, 'policy.yaml'), `approvals: { headless: deny }\nrules:\n  ${rule}\n`);
    expect(await operator.request('policy.reload', {})).toMatchObject({ ok: true });
    expect(await answer()).toMatchObject({ restored: [], error: { code } });
    expect(readFileSync(inOther('a'), 'utf8')).toBe('new');
  }
  const { entries } = (await operator.request('audit.query', { tool: 'calls_undo' })) as { entries: object[] };
  expect(entries).toMatchObject([{ effects: [{ kind: 'write', target: 'a' }] }, { effects: [{ target: 'a' }] }]);
  // The undo of a person who could answer the question is the yes.
  expect(await operator.request('calls.undo', { callId })).toMatchObject({ restored: ['a'] });
  expect(readFileSync(inOther('a'), 'utf8')).toBe('old');
});

test('only so many calls, and so many bytes, can be undone; the oldest go first, and nothing of them stays', async () => {
  await using small = await openDaemon({
    limits: { journalCallsMax: 3, journalBytesMax: 100_000 },
  });
  await using agent = await small.connect();
  const ids: string[] = [];
  const write = async (content: string) => ids.push((await agent.call('file_write', { path: 'f', content })).callId);
  for (const it of ['1', '2', '3', '4']) await write(it);
  expect(await agent.request('calls.undo', { callId: ids[0] })).toMatchObject({
    error: { code: 'UNSUPPORTED', message: expect.stringContaining('undo data was deleted') },
  });
  expect(await agent.request('status', {})).toMatchObject({ undo: { calls: 3 } });
  await write('x'.repeat(90_000));
  await write('y'.repeat(90_000));
  const { undo: kept } = (await agent.request('status', {})) as { undo: { calls: number; bytes: number } };
  expect(kept.bytes).toBeLessThan(100_000);
  const folders = readdirSync(join(small.stateDir, 'journal')).flatMap((it) =>
    readdirSync(join(small.stateDir, 'journal', it)),
  );
  expect(folders.length).toBe(kept.calls);
});

test('a call can be undone after its daemon was stopped and started', async () => {
  const { stateDir, workspace } = daemon;
  const path = 'later';
  const id = await done('file_write', { path, content: 'x' });
  await client[Symbol.asyncDispose]();
  daemon.process.kill('SIGTERM');
  await daemon.ended;
  await using next = await openDaemon({ stateDir, workspace });
  const shown = await promisify(execFile)(
    process.execPath,
    [ringfence, 'undo', id, '--state', stateDir, '--socket', next.socket, '--workspace', workspace],
    { env: { PATH: process.env.PATH, HOME: '/nonexistent' } },
  );
  expect(shown.stdout).toMatch(/^removed later\nto reverse this undo: ringfence undo \S+\n$/);
  expect(readdirSync(workspace)).not.toContain(path);
});
