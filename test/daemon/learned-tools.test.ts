/** Searches for tools that rank by what was called after similar ones, and succeeded, in the workspace. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { dataOf, type OpenDaemon, openDaemon } from '../support/daemon.ts';

let daemon: OpenDaemon;
let agent: Client;
beforeAll(async () => {
  daemon = await openDaemon({ policy: 'tiers: { write: { decision: allow, approve: [] } }\n' });
  writeFileSync(join(daemon.workspace, 'a.txt'), 'one\n');
  agent = await daemon.connect();
});
afterAll(async () => {
  await agent[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});

interface Found {
  readonly name: string;
  readonly why?: string;
}
const found = async (query: string, by = agent): Promise<Found[]> =>
  ((await dataOf(by.call('tools_search', { query }))) as { tools: Found[] }).tools;

test('a tool that succeeded after a search stands first in the next one like it, which says why', async () => {
  const before = await found('duplicate the invoice template');
  expect(before.findIndex((it) => it.name === 'file_copy')).not.toBe(0);
  expect(before.filter((it) => it.why !== undefined)).toEqual([]);
  await dataOf(agent.call('file_copy', { sourcePath: 'a.txt', destPath: 'b.txt' }));
  await using other = await daemon.connect();
  const [first] = await found('duplicating an invoice template again', other);
  expect(first).toEqual({
    name: 'file_copy',
    summary: expect.any(String),
    why: 'called here after such searches, with success: 1×',
  });
  expect((await other.request('tools.search', { query: 'invoice templates' })) as object).toMatchObject({
    tools: expect.arrayContaining([expect.objectContaining({ name: 'file_copy', why: expect.any(String) })]),
  });
  expect((await found('rename a symbol', other)).filter((it) => it.why !== undefined)).toEqual([]);
});

test('a call that failed, and one that came long after other calls, teach nothing', async () => {
  await found('frobnicate the gizmo');
  await agent.call('file_read', { path: 'none.txt' });
  await dataOf(agent.call('file_list', {}));
  await dataOf(agent.call('file_glob', { pattern: '*' }));
  await dataOf(agent.call('file_read', { path: 'a.txt' }));
  const names = (await found('frobnicate the gizmo')).flatMap((it) => (it.why === undefined ? [] : [it.name]));
  expect(names.sort()).toEqual(['file_glob', 'file_list']);
});

test('nothing is learned where the limit is 0', async () => {
  await using plain = await openDaemon({ limits: { learnedToolsMax: 0 } });
  await using client = await plain.connect();
  await found('frobnicate the gizmo', client);
  await dataOf(client.call('file_list', {}));
  expect(await found('frobnicate the gizmo', client)).toEqual([]);
});
