import { expect, test } from 'vitest';
import type { Withheld } from '../../../../src/base/call.ts';
import type { RunResult } from '../../../../src/hosts/runs.ts';
import { withheldOf } from '../../../../src/pipeline/execute/withheld.ts';
import { parseNetworkEntry } from '../../../../src/policy/network.ts';
import { describeWithheld } from '../../../../src/wire/protocol/result-text.ts';

const ran = (withheld: unknown) => ({ result: { usage: { command: { withheld } } } }) as RunResult;
const PATHS = { hidden: [{ path: '.env', rule: 'no-secrets' }], count: 3, readOnly: ['.git/config'] };

test('only hosts that every layer of the policy allows are told', () => {
  const layers = [
    ['*.example.org', '192.0.2.1:22'],
    ['a.example.org', 'b.test'],
  ].map((it) => it.map(parseNetworkEntry));
  expect(withheldOf(ran(PATHS), layers, () => true)?.network).toEqual(['a.example.org']);
});

test.each([
  ['no list', 'x'],
  ['more than a host may list', { ...PATHS, hidden: Array.from({ length: 21 }, () => ({ path: 'x' })) }],
  ['something else beside it', { ...PATHS, more: 1 }],
])('a report of a host is not believed if it is %s', (_, withheld) => {
  expect(withheldOf(ran(withheld), undefined, () => true)).toBeUndefined();
});

test('the report is one line for people and models', () => {
  const shown = (unixSockets: 'own' | 'none') =>
    describeWithheld(withheldOf({ ...ran(PATHS), unixSockets }, undefined, () => true) as Withheld);
  const own = 'hidden: .env and 2 more; read-only: .git/config; network: none';
  expect(shown('own')).toBe(own);
  expect(shown('none')).toBe(`${own}; Unix sockets: none (tiers.execute.unixSockets of the policy)`);
});
