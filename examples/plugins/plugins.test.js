/** The three plugins, tested as you would test yours: node --test plugins.test.js */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test } from 'node:test';
import { assertFailure, assertNoChanges, assertSuccess, testPlugin } from 'ringfence/testing';

const folder = (name) => join(import.meta.dirname, name);

test('scaffold fills a template, and writes over no file', async () => {
  const files = { 'templates/class.txt': 'export class {{name|pascal}} {}\n', 'made/old.ts': 'mine\n' };
  await using scaffold = await testPlugin(folder('scaffold'), { files });
  const input = { template: 'templates/class.txt', target: 'made/user.ts', values: { name: 'user account' } };
  const result = await scaffold.call('generate', input);
  assertSuccess(result, { path: 'made/user.ts', lines: 1, used: ['name'] });
  assertFailure(await scaffold.call('generate', { ...input, target: 'made/old.ts' }));
});

test('sqlite reads rows, and changes none', async () => {
  await using sqlite = await testPlugin(folder('sqlite'), { policy: 'tiers:\n  execute: { decision: allow }\n' });
  {
    using shop = new DatabaseSync(join(sqlite.daemon.workspace, 'shop.db'));
    shop.exec("CREATE TABLE items (name TEXT); INSERT INTO items VALUES ('pen')");
  }
  const rows = await sqlite.call('query', { file: 'shop.db', sql: 'SELECT name FROM items' });
  assertSuccess(rows, { rows: [{ name: 'pen' }] });
  const removed = await sqlite.call('query', { file: 'shop.db', sql: 'DELETE FROM items' });
  assertFailure(removed, 'CODE_ERROR');
  assertNoChanges(removed);
});

test('packages reaches no registry until the policy lists it', async () => {
  await using packages = await testPlugin(folder('packages'), { approvals: 'approve' });
  assertFailure(await packages.call('latest', { name: '../etc/passwd' }), 'INPUT_INVALID');
  const { message } = assertFailure(await packages.call('latest', { name: 'ringfence' }));
  assert.match(message, /connecting to `registry.npmjs.org:443` is refused/);
});
