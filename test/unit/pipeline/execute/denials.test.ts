/** The suggestion for a denied connection names the policy entry that allows it. */

import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { openingOf } from '../../../../src/pipeline/execute/denials.ts';
import { parseNetworkEntry, refusedAddress } from '../../../../src/policy/network.ts';

test.each([
  ['a name that leads to the metadata of a cloud', 'a.test', '169.254.169.254'],
  ['a name that leads into a reserved block', 'a.test', '192.0.2.1'],
  ['a reserved address of version 6', 'a.test', '2001:db8::1'],
  ["a name of this machine's networks", 'a.test', '10.0.0.1'],
  ["an address of this machine's networks", '10.0.0.1', '10.0.0.1'],
])('the suggested entry lets the address pass for %s', (_, host, address) => {
  const to = { host, port: 443, address };
  const { layer = 'policy', reason = '' } = refusedAddress([[parseNetworkEntry('a.test')]], to) ?? {};
  const entry = openingOf({ target: `${host}:443`, layer, reason }) ?? '';
  const rules = ['a.test', parse(entry)].map((it) => parseNetworkEntry(it));
  expect(refusedAddress([rules], to)).toBeUndefined();
});
