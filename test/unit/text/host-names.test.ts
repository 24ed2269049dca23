/** What a person is told of a host's name: its domain, its companions, and what it only looks like. */
import { expect, test } from 'vitest';
import { companionsOf, registrableDomain, suspicionsOf } from '../../../src/base/text/host-names.ts';

test.each([
  ['a.b.example.org', 'example.org'],
  ['example.org', 'example.org'],
  ['www.shop.co.uk', 'shop.co.uk'],
  ['mine.github.io', 'mine.github.io'],
  ['a.mine.github.io', 'mine.github.io'],
  ['93.184.216.34', '93.184.216.34'],
  ['2606:2800:220:1::1', '2606:2800:220:1::1'],
])('the domain of %s is %s', (host, domain) => {
  expect(registrableDomain(host)).toBe(domain);
});

test.each([
  ['registry.npmjs.org', 0],
  ['example.org', 0],
  ['files.pythonhosted.org', 0],
  ['registry.npmjs.orq', 1],
  ['pypl.org', 1],
  ['registry.npmjs.org.evil.example', 1],
  ['xn--pypi-4ve.org', 1],
  ['93.184.216.34', 1],
])('%s has %i marks', (host, marks) => {
  expect(suspicionsOf(host)).toHaveLength(marks);
});

test('one yes opens a registry with the hosts of its files', () => {
  expect(companionsOf('pypi.org')).toContain('files.pythonhosted.org');
  expect(companionsOf('files.pythonhosted.org.evil.example')).toEqual(['files.pythonhosted.org.evil.example']);
});
