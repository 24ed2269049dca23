/** A daemon started with a low priority: its children can't raise theirs, and need not. */
import { expect, test } from 'vitest';
import { dataOf } from '../support/daemon.ts';
import { startProvider } from '../support/providers.ts';

test('programs and providers run under `nice -n 15`', async () => {
  await using arena = await startProvider(undefined, { launcher: ['nice', '-n', '15'] });
  expect(await dataOf(arena.client.call('code_run', { code: 'return 1 + 1' }))).toMatchObject({ value: 2 });
  expect(await arena.text('fix__echo', { text: 'hello' })).toBe('hello');
}, 60_000);
