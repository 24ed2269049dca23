import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { openNetworkEvidence, toDenials } from '../../../../src/sandbox/command/network-evidence.ts';

const SNMP =
  'Ip: Forwarding OutNoRoutes\nIp: 2 3\nUdp: InDatagrams NoPorts\nUdp: 0 2\nIp6OutNoRoutes \t1\nUdp6NoPorts\t0\n';

test('packets without a route and lookups are two refusals with their counts', () => {
  expect(toDenials(SNMP)).toMatchObject([
    { kind: 'connect', target: 'network', layer: 'sandbox', count: 4 },
    { kind: 'connect', target: 'resolver', layer: 'sandbox', count: 2 },
  ]);
});

test('no refusal is reported if nothing was counted or the counters cannot be read', () => {
  expect(toDenials(SNMP.replaceAll(/[123]/g, '0'))).toEqual([]);
  expect(toDenials('')).toEqual([]);
  using gone = openNetworkEvidence(0);
  expect(gone.denied()).toEqual([]);
});

test('the kernel has the columns that are looked for', () => {
  expect(readFileSync('/proc/self/net/snmp', 'utf8')).toMatch(/^Ip: .* OutNoRoutes /m);
  expect(readFileSync('/proc/self/net/snmp', 'utf8')).toMatch(/^Udp: .* NoPorts /m);
});
