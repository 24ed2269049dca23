import { equal } from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { testPlugin } from 'ringfence/testing';

let added;
before(async () => {
  const folder = fileURLToPath(new URL('../plugin', import.meta.url));
  added = await testPlugin(folder, { files: { 'notes.txt': 'Buy tea.\nBuy bread.\nDrink the tea.\n' } });
});
after(() => added?.close());

test('counts the lines with a word, and changes nothing', async () => {
  const { data, metadata } = await added.call('run', { path: 'notes.txt', word: 'bread' });
  equal(data.lines, 1);
  equal(metadata.filesChanged, undefined);
});

test('fails where there is no such file', async () => {
  const { error } = await added.call('run', { path: 'missing.txt', word: 'tea' });
  equal(error.code, 'CODE_ERROR');
});

test('keeps what every tool promises', () => added.assertContract());
