/** Commits of previews over files that somebody changed meanwhile: what can be merged keeps both, and no edit is ever lost. */
import { chmodSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import type { CommitResult, ToolResult } from '../../src/base/call.ts';
import type { Client } from '../../src/client/client.ts';
import { type OpenDaemon, openDaemon, removeTree } from '../support/daemon.ts';
import { treeWithModes } from '../support/workspace.ts';

const LINES = Array.from({ length: 20 }, (_, i) => `line ${i}\n`);
const OLD_BYTES_MAX = 4096;

let daemon: OpenDaemon;
let client: Client;

beforeAll(async () => {
  daemon = await openDaemon({ limits: { previewOldBytesMax: OLD_BYTES_MAX } });
});
afterAll(async () => {
  await daemon[Symbol.asyncDispose]();
});
beforeEach(async () => {
  client = await daemon.connect();
  mkdirSync(at('d'));
  writeFileSync(at('d/text'), LINES.join(''));
});
afterEach(async () => {
  await client[Symbol.asyncDispose]();
  for (const it of readdirSync(daemon.workspace)) removeTree(at(it));
});

const at = (path: string) => join(daemon.workspace, path);
const tree = () => treeWithModes(daemon.workspace);
const text = (changes: Record<number, string>) => LINES.map((it, i) => changes[i] ?? it).join('');
const edit = (changes: Record<number, string>) => writeFileSync(at('d/text'), text(changes));

async function preview(command: string): Promise<string> {
  const result = (await client.call('terminal_execute', { command }, { preview: true })) as unknown as ToolResult;
  if (!result.success || !result.preview) throw new Error(JSON.stringify(result));
  return result.preview.id;
}
const commit = (previewId: string, more = {}) =>
  client.request('calls.commit', { previewId, ...more }) as Promise<CommitResult>;

test('lines that a person changed meanwhile stay, with those that the command changed, and the undo of the commit too', async () => {
  const id = await preview("sed -i 's/line 3$/theirs/' d/text; echo new > d/new");
  edit({ 15: 'mine\n' });
  const mine = tree();
  const done = await commit(id);
  expect(done).toMatchObject({ committed: ['d/new', 'd/text'], merged: ['d/text'], conflicts: [], undo: 'full' });
  expect(readFileSync(at('d/text'), 'utf8')).toBe(text({ 3: 'theirs\n', 15: 'mine\n' }));
  expect(await client.undo(done.callId as string)).toMatchObject({ conflicts: [] });
  expect(tree()).toEqual(mine);
});

test('new permissions are taken from whoever changed them', async () => {
  const byCommand = await preview("chmod 700 d/text; sed -i 's/line 3$/theirs/' d/text");
  edit({ 15: 'mine\n' });
  expect(await commit(byCommand)).toMatchObject({ merged: ['d/text'] });
  expect(statSync(at('d/text')).mode & 0o777).toBe(0o700);
  const byPerson = await preview("sed -i 's/line 5$/theirs/' d/text");
  chmodSync(at('d/text'), 0o640);
  expect(await commit(byPerson)).toMatchObject({ merged: ['d/text'] });
  expect(readFileSync(at('d/text'), 'utf8')).toBe(text({ 3: 'theirs\n', 5: 'theirs\n', 15: 'mine\n' }));
  expect(statSync(at('d/text')).mode & 0o777).toBe(0o640);
  const byBoth = await preview('chmod 600 d/text');
  chmodSync(at('d/text'), 0o664);
  expect(await commit(byBoth)).toMatchObject({ committed: [], conflicts: ['d/text'] });
});

test('the same change by both is one', async () => {
  const id = await preview("sed -i 's/line 3$/ours/' d/text");
  edit({ 3: 'ours\n' });
  expect(await commit(id)).toMatchObject({ merged: ['d/text'], conflicts: [] });
  expect(readFileSync(at('d/text'), 'utf8')).toBe(text({ 3: 'ours\n' }));
});

/** What can't be merged: the preview's command, and what somebody does meanwhile. */
const CONFLICTS: [string, string, () => void][] = [
  ['the same line', "sed -i 's/line 3$/theirs/' d/text", () => edit({ 3: 'mine\n' })],
  ['a neighbouring line', "sed -i 's/line 3$/theirs/' d/text", () => edit({ 4: 'mine\n' })],
  ['a file that was removed', "sed -i 's/line 3$/theirs/' d/text", () => rmSync(at('d/text'))],
  ['a file that is to go', 'rm d/text', () => edit({ 15: 'mine\n' })],
  ['a file that is none any more', "sed -i 's/line 3$/theirs/' d/text", () => writeFileSync(at('d/text'), 'a\0b')],
  [
    'a link in the place of the file',
    "sed -i 's/line 3$/theirs/' d/text",
    () => {
      writeFileSync(at('elsewhere'), text({ 15: 'mine\n' }));
      rmSync(at('d/text'));
      symlinkSync('../elsewhere', at('d/text'));
    },
  ],
];
test.each(CONFLICTS)('%s is a conflict, and nothing is lost', async (_, command, change) => {
  const id = await preview(`${command}; echo other > other`);
  change();
  const before = tree();
  expect(await commit(id)).toMatchObject({ committed: [], merged: [], conflicts: ['d/text'], undo: 'none' });
  expect(tree()).toEqual(before);
});

test('a forced commit merges what can be merged, and replaces only the rest', async () => {
  writeFileSync(at('other'), 'old\n');
  const id = await preview("sed -i 's/line 3$/theirs/' d/text; echo theirs > other");
  edit({ 15: 'mine\n' });
  writeFileSync(at('other'), 'mine\n');
  expect(await commit(id)).toMatchObject({ committed: [], conflicts: ['other'] });
  expect(await commit(id, { force: true })).toMatchObject({ merged: ['d/text'], conflicts: [] });
  expect(readFileSync(at('d/text'), 'utf8')).toBe(text({ 3: 'theirs\n', 15: 'mine\n' }));
  expect(readFileSync(at('other'), 'utf8')).toBe('theirs\n');
});

test('a file beyond previewOldBytesMax is not kept to merge, and a change of it is a conflict', async () => {
  const long = 'x'.repeat(100);
  writeFileSync(at('d/text'), text({ 0: `${long.repeat(OLD_BYTES_MAX / 100)}\n` }));
  const id = await preview("sed -i 's/line 3$/theirs/' d/text");
  edit({ 15: 'mine\n' });
  expect(await commit(id)).toMatchObject({ committed: [], conflicts: ['d/text'] });
});

test('a commit about which a person is asked merges nothing', async () => {
  const policy =
    'version: 1\ntiers:\n  read_only: { decision: allow }\n  write: { decision: allow }\n  execute: { decision: ask }\n';
  await using asking = await openDaemon({ policy });
  await using by = await asking.connect();
  writeFileSync(join(asking.workspace, 'text'), LINES.join(''));
  const command = "sed -i 's/line 3$/theirs/' text";
  const result = (await by.call('terminal_execute', { command }, { preview: true })) as unknown as ToolResult;
  if (!result.success || !result.preview) throw new Error(JSON.stringify(result));
  const mine = text({ 15: 'mine\n' });
  writeFileSync(join(asking.workspace, 'text'), mine);
  await using operator = await asking.connect({ role: 'operator' });
  const committing = by.request('calls.commit', { previewId: result.preview.id }) as Promise<CommitResult>;
  let isOver = false;
  void committing.then(() => (isOver = true));
  while (!isOver) {
    const { approvals } = (await operator.request('approvals.list', {})) as { approvals: { approvalId: string }[] };
    for (const { approvalId } of approvals)
      await operator.request('approvals.resolve', { approvalId, decision: 'approve' });
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  expect(await committing).toMatchObject({ committed: [], conflicts: ['text'] });
  expect(readFileSync(join(asking.workspace, 'text'), 'utf8')).toBe(mine);
});
