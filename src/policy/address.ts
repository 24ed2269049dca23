/**
 * IP addresses as 128-bit numbers, and the kind of network that they belong to. An IPv4 address becomes its IPv6 form (::ffff:a.b.c.d), so
 * both spellings compare equal. Pure.
 */
import { isIPv4, isIPv6 } from 'node:net';

const BITS = 128;
const MAPPED_BITS = 96;
const MAPPED = 0xffffn << 32n;
/** Prefix of the IPv6 addresses that a NAT64 gateway translates to IPv4 ones (RFC 6052). */
const NAT64 = 0x64ff9bn << 96n;

/** The address as a 128-bit number; undefined if the text is no IP address. An address with a zone (`%eth0`) counts as none. */
export function parseAddress(text: string): bigint | undefined {
  if (isIPv4(text)) return MAPPED | fromIPv4(text);
  if (!isIPv6(text) || text.includes('%')) return undefined;
  const dotted = /^(.*:)(\d+\.\d+\.\d+\.\d+)$/.exec(text);
  const v4 = dotted && fromIPv4(dotted[2] as string);
  const plain = dotted && v4 !== null ? `${dotted[1]}${(v4 >> 16n).toString(16)}:${(v4 & 0xffffn).toString(16)}` : text;
  const [head = '', tail] = plain.split('::');
  const [before, after] = [wordsOf(head), wordsOf(tail ?? '')];
  const zeros = Array.from({ length: 8 - before.length - after.length }, () => 0n);
  const words = tail === undefined ? before : [...before, ...zeros, ...after];
  return words.reduce((sum, word) => (sum << 16n) | word, 0n);
}

const wordsOf = (text: string): bigint[] => (text === '' ? [] : text.split(':').map((it) => BigInt(`0x${it}`)));
const fromIPv4 = (text: string): bigint => text.split('.').reduce((sum, part) => (sum << 8n) | BigInt(part), 0n);

/** A CIDR block. */
export interface AddressBlock {
  readonly address: bigint;
  /** Prefix length out of 128 bits; an IPv4 block has 96 more than its text says. */
  readonly prefix: number;
}

/** Parses `10.0.0.0/8`, `fd00::/8` or a single address; undefined for anything else, and for a block with bits set below the prefix. */
export function parseBlock(text: string): AddressBlock | undefined {
  const [base = '', length, more] = text.split('/');
  const address = parseAddress(base);
  if (address === undefined || more !== undefined) return undefined;
  if (length === undefined) return { address, prefix: BITS };
  const added = isIPv4(base) ? MAPPED_BITS : 0;
  if (!/^\d{1,3}$/.test(length) || Number(length) + added > BITS) return undefined;
  const prefix = Number(length) + added;
  return (address & (~0n << BigInt(BITS - prefix))) === address ? { address, prefix } : undefined;
}

/** Whether all of `inner` lies in `outer`. */
export const containsBlock = (outer: AddressBlock, inner: AddressBlock): boolean =>
  inner.prefix >= outer.prefix && (outer.address ^ inner.address) >> BigInt(BITS - outer.prefix) === 0n;

/** One address as a block. */
export const singleAddress = (address: bigint): AddressBlock => ({ address, prefix: BITS });

/**
 * public: the internet. private: this machine and its networks. special: neither, and often dangerous (cloud metadata, translated
 * addresses, multicast).
 */
export type AddressClass = 'public' | 'private' | 'special';

const blocks = (...texts: string[]): AddressBlock[] => texts.map((it) => parseBlock(it) as AddressBlock);

/** IANA's special-purpose registries, and the addresses of cloud metadata services. */
const SPECIAL = blocks(
  ...['0.0.0.0/8', '169.254.0.0/16', '192.0.0.0/24', '192.0.2.0/24', '192.88.99.0/24', '198.18.0.0/15'],
  ...['198.51.100.0/24', '203.0.113.0/24', '224.0.0.0/4', '240.0.0.0/4'],
  ...['100.100.100.200', '168.63.129.16', 'fd00:ec2::254', 'fd20:ce::254'],
  ...['2001::/23', '2001:db8::/32', '2002::/16', '3fff::/20'],
);
const PRIVATE = blocks(
  ...['10.0.0.0/8', '100.64.0.0/10', '127.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', '::1', 'fc00::/7'],
);
const [IPV4, GLOBAL, FROM_NAT64] = blocks('0.0.0.0/0', '2000::/3', '64:ff9b::/96') as [
  AddressBlock,
  AddressBlock,
  AddressBlock,
];

/** The reach of a block; if its addresses differ, the most dangerous one. */
export function reachOf(block: AddressBlock): AddressClass {
  if (containsBlock(FROM_NAT64, block)) return reachOf({ ...block, address: MAPPED | (block.address ^ NAT64) });
  if (SPECIAL.some((it) => containsBlock(it, block))) return 'special';
  if (PRIVATE.some((it) => containsBlock(it, block))) return 'private';
  return containsBlock(IPV4, block) || containsBlock(GLOBAL, block) ? 'public' : 'special';
}
