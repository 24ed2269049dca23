/** The three plugins, tested as you would test yours: node --test plugins.test.js */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test } from 'node:test';
import { testPlugin } from 'ringfence/testing';

const codeOf = ({ error }) => error?.code;
const folder = (name) => join(import.meta.dirname, name);

test('scaffold fills a template, and writes over no file', async () => {
  const files = { 'templates/class.txt': 'export class {{name|pascal}} {}\n', 'made/old.ts': 'mine\n' };
  await using scaffold = await testPlugin(folder('scaffold'), { files });
  const input = { template: 'templates/class.txt', target: 'made/user.ts', values: { name: 'user account' } };
  const result = await scaffold.call('generate', input);
  assert.deepEqual({ ...result.data }, { path: 'made/user.ts', lines: 1, used: ['name'] });
  assert.ok(!(await scaffold.call('generate', { ...input, target: 'made/old.ts' })).success);
});

test('sqlite reads rows, and changes none', async () => {
  await using sqlite = await testPlugin(folder('sqlite'));
  {
    using shop = new DatabaseSync(join(sqlite.daemon.workspace, 'shop.db'));
    shop.exec("CREATE TABLE items (name TEXT); INSERT INTO items VALUES ('pen')");
  }
  const rows = await sqlite.call('query', { file: 'shop.db', sql: 'SELECT name FROM items' });
  assert.equal(rows.data.rows[0].name, 'pen');
  const removed = await sqlite.call('query', { file: 'shop.db', sql: 'DELETE FROM items' });
  assert.equal(codeOf(removed), 'CODE_ERROR');
  assert.equal(removed.metadata.filesChanged, undefined);
});

test('packages reaches no registry until the policy lists it', async () => {
  await using packages = await testPlugin(folder('packages'), { approvals: 'approve' });
  assert.equal(codeOf(await packages.call('latest', { name: '../etc/passwd' })), 'INPUT_INVALID');
  const { error } = await packages.call('latest', { name: 'ringfence' });
  assert.match(error.message, /connecting to `registry.npmjs.org:443` is refused/);
});
