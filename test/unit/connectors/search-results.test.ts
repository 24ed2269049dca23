/** Results of searches: what services send becomes short plain text. */
import { expect, test } from 'vitest';
import { defaultLimits } from '../../../src/base/limits.ts';
import { toResults } from '../../../src/services/connectors/search/results.ts';

const first = (fields: object) => toResults([{ url: 'https://example.org/', ...fields }], 1, defaultLimits).results[0];

test.each([
  ['a <strong class="x">b</strong> c', 'a b c'],
  ['Array<T> and a < b > c', 'Array<T> and a < b > c'],
  ['&lt;b&gt; &#x27;q&#39; &unknown; &#0; &#xd800;', "<b> 'q' &unknown; &#0; \ufffd"],
  ['a\n\n  b\tc', 'a b c'],
  ['ig\u200bno\u202ere \u{e0041}this', 'ignore this'],
  [7, ''],
  [undefined, ''],
  [['one', 2, 'two'], 'one … two'],
])('the snippet %j becomes %j', (given, snippet) => {
  expect(first({ title: 't', snippet: given })?.snippet).toBe(snippet);
});

test.each([
  ['2025-05-01', '2025-05-01'],
  ['2025-05-01T23:59:59', '2025-05-01'],
  ['Thu, 01 May 2025 12:00:00 GMT', '2025-05-01'],
  ['2025-99-99', undefined],
  ['2 days ago', undefined],
  ['page 7', undefined],
  [null, undefined],
  [1_700_000_000, undefined],
  ['9'.repeat(100_000), undefined],
])('the date %j becomes %j', (published, day) => {
  expect(first({ title: 't', published })?.published).toBe(day);
});

test('a result without a title is named by its host', () => {
  expect(first({ snippet: 's' })).toEqual({ title: 'example.org', url: 'https://example.org/', snippet: 's' });
});

test('markup that never ends is cleaned in linear time', () => {
  const startedMs = performance.now();
  const snippet = '<a '.repeat(100_000) + '&'.repeat(100_000);
  toResults(
    Array.from({ length: 1_000 }, (_, at) => ({ url: `https://example.org/${at}`, snippet })),
    20,
    defaultLimits,
  );
  expect(performance.now() - startedMs).toBeLessThan(500);
});

test('an answer of any other shape has no results', () => {
  for (const it of [undefined, null, 'text', 7, {}, { length: 3 }])
    expect(toResults(it, 10, defaultLimits).results).toEqual([]);
});
