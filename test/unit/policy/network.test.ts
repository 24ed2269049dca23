import { describe, expect, test } from 'vitest';
import { parseAddress, parseBlock, reachOf, singleAddress } from '../../../src/policy/address.ts';
import {
  covers,
  type NetworkEntry,
  parseNetworkEntry,
  refusedAddress,
  refusedName,
  toHostName,
} from '../../../src/policy/network.ts';

const layer = (...entries: NetworkEntry[]) => entries.map(parseNetworkEntry);
const name = (entries: NetworkEntry[], host: string, port = 443) => refusedName([layer(...entries)], { host, port });
const address = (entries: NetworkEntry[], host: string, to: string, port = 443) =>
  refusedAddress([layer(...entries)], { host, port, address: to });

describe('an address', () => {
  test.each([
    ['8.8.8.8', 'public'],
    ['2606:4700::1111', 'public'],
    ['64:ff9b::8.8.8.8', 'public'],
    ['127.0.0.1', 'private'],
    ['127.255.255.254', 'private'],
    ['::ffff:127.0.0.1', 'private'],
    ['::ffff:7f00:1', 'private'],
    ['64:ff9b::10.0.0.1', 'private'],
    ['::1', 'private'],
    ['10.1.2.3', 'private'],
    ['172.31.255.255', 'private'],
    ['192.168.0.1', 'private'],
    ['100.64.0.1', 'private'],
    ['fd12::1', 'private'],
    ['0.0.0.0', 'special'],
    ['::', 'special'],
    ['::127.0.0.1', 'special'],
    ['169.254.169.254', 'special'],
    ['64:ff9b::169.254.169.254', 'special'],
    ['::ffff:169.254.169.254', 'special'],
    ['100.100.100.200', 'special'],
    ['168.63.129.16', 'special'],
    ['fd00:ec2::254', 'special'],
    ['fe80::1', 'special'],
    ['224.0.0.1', 'special'],
    ['255.255.255.255', 'special'],
    ['ff02::1', 'special'],
    ['2002:7f00:1::', 'special'],
    ['2001::1', 'special'],
    ['64:ff9b:1::1', 'special'],
    ['198.18.0.1', 'special'],
  ])('%s is %s', (text, reach) => {
    expect(reachOf(singleAddress(parseAddress(text) as bigint))).toBe(reach);
  });

  test('an address is not parsed from a name, nor with a zone', () => {
    expect(['example.com', 'fe80::1%lo', '1.2.3', '', '1.2.3.4.5', ':::'].map(parseAddress)).toEqual(
      Array.from({ length: 6 }, () => undefined),
    );
  });

  test('block is refused if it has bits below its prefix, or a prefix that is too long', () => {
    expect(['10.0.0.1/8', '10.0.0.0/33', 'fd00::/129', '10.0.0.0/', '10.0.0.0/8/8'].map(parseBlock)).toEqual(
      Array.from({ length: 5 }, () => undefined),
    );
  });
});

describe('a host', () => {
  test.each([
    ['EXAMPLE.com.', 'example.com'],
    ['bücher.example', 'xn--bcher-kva.example'],
    ['2130706433', '127.0.0.1'],
    ['0x7f.1', '127.0.0.1'],
    ['0177.0.0.1', '127.0.0.1'],
    ['127.1', '127.0.0.1'],
    ['[::ffff:127.0.0.1]', '::ffff:7f00:1'],
    ['::1', '::1'],
  ])('%s is %s', (text, is) => {
    expect(toHostName(text)).toBe(is);
  });

  test.each([
    '',
    'a..b',
    'a b',
    'a/b',
    'user@host',
    'a\\b',
    'x\r\ny',
    '-',
    `${'a'.repeat(64)}.com`,
    '1.2.3.4.5',
    '*.com',
  ])('%j is none', (text) => {
    expect(toHostName(text)).toBeUndefined();
  });
});

describe('an entry', () => {
  test('without a port allows ports 80 and 443', () => {
    expect(name(['example.com'], 'example.com', 443)).toBeUndefined();
    expect(name(['example.com'], 'example.com', 80)).toBeUndefined();
    expect(name(['example.com'], 'example.com', 22)?.reason).toBe("port 22 of example.com is not in the policy's list");
  });
  test('an entry with a port allows only that port, and with * every port', () => {
    expect(name(['example.com:8443'], 'example.com', 443)).toBeDefined();
    expect(name(['example.com:8443'], 'example.com', 8443)).toBeUndefined();
    expect(name([{ host: 'example.com', port: [22, 443] }], 'example.com', 22)).toBeUndefined();
    expect(name(['example.com:*'], 'example.com', 1)).toBeUndefined();
  });
  test('*.domain matches subdomains by whole labels, but not the domain itself', () => {
    expect(name(['*.example.com'], 'a.b.example.com')).toBeUndefined();
    for (const other of ['example.com', 'evilexample.com', 'example.com.evil.org', 'a.example.org'])
      expect(name(['*.example.com'], other)?.layer).toBe('policy');
  });
  test('an entry that is a name allows no private or special address', () => {
    expect(address(['example.com'], 'example.com', '8.8.8.8')).toBeUndefined();
    for (const it of ['127.0.0.1', '10.0.0.1', '169.254.169.254', '::1', '::ffff:127.0.0.1', '0.0.0.0'])
      expect(address(['example.com'], 'example.com', it)?.layer).toBe('sandbox');
  });
  test('a private entry opens private addresses, and the metadata of no cloud', () => {
    const git = [{ host: 'git.corp', private: true }];
    expect(address(git, 'git.corp', '10.0.0.1')).toBeUndefined();
    expect(address(git, 'git.corp', '169.254.169.254')).toBeDefined();
    expect(address(git, 'git.corp', '0.0.0.0')).toBeDefined();
  });
  test('an entry that is an address allows that address in every spelling', () => {
    expect(name(['127.0.0.1:8080'], '::ffff:7f00:1', 8080)).toBeUndefined();
    expect(address(['127.0.0.1:8080'], '127.0.0.1', '127.0.0.1', 8080)).toBeUndefined();
    expect(name(['127.0.0.1:8080'], '127.0.0.2', 8080)).toBeDefined();
    expect(name(['127.0.0.1:8080'], '127.0.0.1', 8081)).toBeDefined();
    expect(address(['169.254.169.254'], '169.254.169.254', '169.254.169.254', 80)).toBeUndefined();
  });
  test('an entry that is a block allows private addresses only if the whole block is private', () => {
    expect(address(['10.0.0.0/8'], '10.1.1.1', '10.1.1.1')).toBeUndefined();
    expect(address(['0.0.0.0/0'], '10.1.1.1', '10.1.1.1')).toBeDefined();
    expect(address(['0.0.0.0/0'], '8.8.8.8', '8.8.8.8')).toBeUndefined();
    expect(address(['169.254.0.0/16'], '169.254.169.254', '169.254.169.254')).toBeDefined();
  });
  test.each([
    '*',
    '*.',
    'http://x',
    'x/y',
    'x:0',
    'x:70000',
    '10.0.0.1/8',
    'a..b',
    '*.10.0.0.1',
    '',
    'x y',
    'example.com:',
  ])('%j is refused', (text) => {
    expect(() => parseNetworkEntry(text)).toThrow(/is not a host|a port must be a number/);
  });
});

test('every layer must allow', () => {
  const layers = [layer('*.example.com'), layer('a.example.com', 'b.org')];
  expect(refusedName(layers, { host: 'a.example.com', port: 443 })).toBeUndefined();
  expect(refusedName(layers, { host: 'b.example.com', port: 443 })).toBeDefined();
  expect(refusedName(layers, { host: 'b.org', port: 443 })).toBeDefined();
  const privately = [layer({ host: 'x.org', private: true }), layer('x.org')];
  expect(refusedAddress(privately, { host: 'x.org', port: 443, address: '10.0.0.1' })).toBeDefined();
});

test.each<[NetworkEntry, NetworkEntry, boolean]>([
  ['*.example.com', 'a.example.com', true],
  ['*.example.com', '*.a.example.com', true],
  ['*.example.com', '*.example.com:443', true],
  ['*.example.com', 'example.com', false],
  ['example.com', '*.example.com', false],
  ['example.com:443', 'example.com', false],
  ['example.com:*', 'example.com', true],
  ['example.com', 'example.com:*', false],
  ['example.com', { host: 'example.com', private: true }, false],
  ['10.0.0.0/8', '10.1.0.0/16', true],
  ['0.0.0.0/0', '10.1.0.0/16', false],
  ['0.0.0.0/0', '8.8.0.0/16', true],
  ['0.0.0.0/0', '169.254.169.254', false],
  ['10.1.0.0/16', '10.0.0.0/8', false],
])('%j covers %j: %s', (outer, inner, expected) => {
  expect(covers(parseNetworkEntry(outer), parseNetworkEntry(inner))).toBe(expected);
});
