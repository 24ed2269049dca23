import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { deepEqual, equal } from 'node:assert/strict';
import { fileURLToPath } from 'node:url';
import { testPlugin } from 'ringfence/testing';

const folder = fileURLToPath(new URL('../plugin', import.meta.url));
let added;
before(async () => {
  added = await testPlugin(folder, { files: { 'notes/monday.md': 'Buy tea.\n' } });
});
after(() => added?.close());

/** Brings the notes back to what they were. */
const prepare = () => rmSync(join(added.daemon.workspace, 'notes/tuesday.md'), { force: true });

test('finds the notes with a word', async () => {
  const { data } = await added.call('find', { word: 'tea' });
  deepEqual({ ...data }, { files: ['notes/monday.md'] });
});

test('adds a note, and leaves one that is there', async () => {
  prepare();
  const { data } = await added.call('add', { name: 'tuesday', text: 'Drink tea.' });
  equal(data.path, 'notes/tuesday.md');
  const { error } = await added.call('add', { name: 'tuesday', text: 'Drink coffee.' });
  equal(error.code, 'CODE_ERROR');
  equal(readFileSync(join(added.daemon.workspace, 'notes/tuesday.md'), 'utf8'), 'Drink tea.\n');
});

test('keeps what every tool promises', async () => {
  prepare();
  await added.assertContract({ prepare });
});
