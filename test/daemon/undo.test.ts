/** calls.undo through a real daemon: what it restores, what it refuses, who may. */
import { chmodSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Client } from '../../src/client.ts';
import { ALLOW_ALL, startDaemon, type TestDaemon } from '../support/daemon.ts';
import { treeWithModes } from '../support/workspace.ts';

let daemon: TestDaemon;
let client: Client;

beforeAll(async () => {
  daemon = await startDaemon({ policy: ALLOW_ALL });
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
  chmodSync(at('src/deep/run.sh'), 0o750);
  symlinkSync('../a.txt', at('src/deep/link'));
  symlinkSync('/nonexistent', at('dangling'));
  const calls: [string, object][] = [
    ['file_write', { path: 'src/a.txt', content: 'new', mode: '0600' }],
    ['file_write', { path: 'made/on/the/way.txt', content: 'x' }],
    ['file_edit', { path: 'src/b.txt', operations: [{ type: 'replace', search: 'two', replace: '2' }] }],
    ['file_multi_edit', { pattern: '*', find: 'n', replace: 'N', path: 'src' }],
    ['file_rename', { oldPath: 'src/a.txt', newPath: 'src/b.txt', overwrite: true }],
    ['file_rename', { oldPath: 'src', newPath: 'there/lib' }],
    ['file_copy', { sourcePath: 'there', destPath: 'copy' }],
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
