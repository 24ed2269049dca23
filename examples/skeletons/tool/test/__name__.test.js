import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { assertFailure, assertNoChanges, assertSuccess, testPlugin } from 'ringfence/testing';

let added;
before(async () => {
  const folder = fileURLToPath(new URL('../plugin', import.meta.url));
  added = await testPlugin(folder, { files: { 'notes.txt': 'Buy tea.\nBuy bread.\nDrink the tea.\n' } });
});
after(() => added?.close());

test('counts the lines with a word, and changes nothing', async () => {
  const result = await added.call('run', { path: 'notes.txt', word: 'bread' });
  assertSuccess(result, { lines: 1 });
  assertNoChanges(result);
});

test('fails where there is no such file', async () => {
  assertFailure(await added.call('run', { path: 'missing.txt', word: 'tea' }), 'CODE_ERROR');
});

test('keeps what every tool promises', () => added.assertContract());
