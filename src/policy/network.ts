/**
 * Where commands may connect to: entries of `tiers.execute.network`, and what they say of a name, a port and an address.
 * Plain data, since they cross to the egress proxy. Pure.
 */
import { type Block, holds, only, parseAddress, parseBlock, reachOf } from './address.ts';

/** One entry of an allowlist. */
export interface NetworkRule {
  /** Without a trailing dot, lower-case, in ASCII; absent where `block` is there. */
  readonly name?: string;
  /** Whether it means what lies below the name (`*.example.org`), and not the name. */
  readonly below?: boolean;
  /** `10.0.0.0/8`, or one address. */
  readonly block?: string;
  /** Empty: all. */
  readonly ports: readonly number[];
  /** Whether the name may lead to this machine and its networks. */
  readonly private: boolean;
}

/** What one layer of a policy says; all of them must allow a connection. */
export type NetworkLayer = readonly NetworkRule[];

/** An entry as it is written. */
export type NetworkEntry =
  | string
  | { host: string; port?: number | number[] | '*' | undefined; private?: boolean | undefined };

/** What an entry without a port means. */
const WEB_PORTS = [80, 443];

/** Throws an Error that says what is wrong with it. */
export function parseNetworkEntry(entry: NetworkEntry): NetworkRule {
  if (typeof entry !== 'string') {
    const rule = parseNetworkEntry(entry.host);
    if (entry.port !== undefined && portOf(entry.host).port !== undefined)
      throw new Error(`${entry.host} has a port already`);
    const ports = entry.port === undefined ? rule.ports : entry.port === '*' ? [] : [entry.port].flat();
    return { ...rule, ports, private: entry.private ?? false };
  }
  const { host, port } = portOf(entry);
  const ports = port === undefined ? WEB_PORTS : port === '*' ? [] : [Number(port)];
  if (ports.some((it) => it < 1 || it > 65_535)) throw new Error(`${entry}: a port is a number from 1 to 65535, or *`);
  const block = parseBlock(host);
  if (block) return { block: host, ports, private: false };
  const below = host.startsWith('*.');
  const name = toHostName(below ? host.slice(2) : host);
  if (name === undefined || host.includes('/') || parseAddress(name) !== undefined)
    throw new Error(`${entry} is no host, *.domain, address or block of addresses, with or without :port`);
  return { name, ...(below && { below }), ports, private: false };
}

/** `host`, `host:port`, `[v6]:port`; a bare IPv6 address has no port. */
function portOf(text: string): { host: string; port?: string | undefined } {
  const bracketed = /^\[([^\]]*)\](?::(\d{1,5}|\*))?$/.exec(text);
  if (bracketed) return { host: bracketed[1] as string, port: bracketed[2] };
  const plain = /^([^:]*):(\d{1,5}|\*)$/.exec(text);
  return plain ? { host: plain[1] as string, port: plain[2] } : { host: text };
}

const HOST_CHARS_MAX = 253;

/**
 * A host as it is compared: lower-case, in ASCII, without a trailing dot; addresses in their one spelling, whether they were
 * written in decimal, octal, hexadecimal or in parts. Undefined for what is no host.
 */
export function toHostName(text: string): string | undefined {
  if (/[\s/?#@\\%]/.test(text) || text === '') return undefined;
  const bare = text.includes(':') && !text.startsWith('[') ? `[${text}]` : text;
  const url = URL.parse(`http://${bare}/`);
  if (url?.port !== '' || url.hostname === '') return undefined;
  const name = url.hostname.replace(/^\[(.*)\]$/, '$1').replace(/\.$/, '');
  if (name.length > HOST_CHARS_MAX) return undefined;
  if (parseAddress(name) !== undefined) return name;
  return name.split('.').every((label) => /^[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?$/.test(label)) ? name : undefined;
}

/** Why a connection is not to be made. */
export interface Refusal {
  /** What refused it: the policy's list, or what no list opens unasked. */
  readonly layer: 'policy' | 'sandbox';
  readonly reason: string;
}

export interface Destination {
  /** Of `toHostName`. */
  readonly host: string;
  readonly port: number;
}

/** Before anything is looked up: a name that a layer does not list is told to nobody. */
export function refusedName(layers: readonly NetworkLayer[], to: Destination): Refusal | undefined {
  const literal = parseAddress(to.host);
  for (const rules of layers) {
    const named =
      literal === undefined
        ? rules.filter((it) => names(it, to.host))
        : rules.filter((it) => blockOf(it) && holds(blockOf(it) as Block, only(literal)));
    if (named.some((it) => opens(it, to.port))) continue;
    if (literal !== undefined && named.length === 0 && reachOf(only(literal)) !== 'public')
      return refusedAddress(layers, { ...to, address: to.host });
    const what = named.length > 0 ? `port ${to.port} of ${to.host}` : to.host;
    return { layer: 'policy', reason: `${what} is not in the policy's list` };
  }
  return undefined;
}

/** The address that a listed name leads to, or that was given instead of one. */
export function refusedAddress(
  layers: readonly NetworkLayer[],
  { host, port, address }: Destination & { address: string },
): Refusal | undefined {
  const number = parseAddress(address);
  if (number === undefined) return { layer: 'sandbox', reason: `${address} is no address` };
  const reach = reachOf(only(number));
  for (const rules of layers) {
    if (rules.some((it) => opens(it, port) && reaches(it, { host, number, reach }))) continue;
    const leads = host === address ? `${address} is` : `${host} leads to ${address}, which is`;
    const kind =
      reach === 'private' ? 'an address of this machine or its networks' : 'no address of the public internet';
    return { layer: 'sandbox', reason: `${leads} ${kind}, and the policy does not name it` };
  }
  return undefined;
}

function reaches(rule: NetworkRule, to: { host: string; number: bigint; reach: ReturnType<typeof reachOf> }): boolean {
  const block = blockOf(rule);
  if (!block) return names(rule, to.host) && (to.reach === 'public' || (to.reach === 'private' && rule.private));
  if (!holds(block, only(to.number))) return false;
  // A wide block was not written with what is special in it in mind.
  if (to.reach === 'special') return block.prefix === only(0n).prefix;
  return to.reach === 'public' || reachOf(block) === 'private';
}

const opens = ({ ports }: NetworkRule, port: number): boolean => ports.length === 0 || ports.includes(port);
const names = ({ name, below }: NetworkRule, host: string): boolean =>
  name !== undefined && (below ? host.endsWith(`.${name}`) : host === name);
const blockOf = ({ block }: NetworkRule): Block | undefined => (block === undefined ? undefined : parseBlock(block));

/** Whether all that `inner` allows, `outer` does too. */
export function covers(outer: NetworkRule, inner: NetworkRule): boolean {
  const ports = outer.ports.length === 0 || (inner.ports.length > 0 && inner.ports.every((it) => opens(outer, it)));
  if (!ports || (inner.private && !outer.private)) return false;
  const [around, within] = [blockOf(outer), blockOf(inner)];
  if (around || within) return around !== undefined && within !== undefined && isSafelyWithin(around, within);
  if (!outer.below) return !inner.below && outer.name === inner.name;
  return inner.name?.endsWith(`.${outer.name}`) || (inner.below === true && inner.name === outer.name);
}

/** One in another, of which it does not name what the other only surrounds. */
const isSafelyWithin = (around: Block, within: Block): boolean =>
  holds(around, within) &&
  (reachOf(within) === 'public' || reachOf(around) === reachOf(within)) &&
  (reachOf(within) !== 'special' || around.prefix === within.prefix);

/** As it is written in a policy, for people. */
export function showNetworkRule({ name, below, block, ports, private: isPrivate }: NetworkRule): string {
  const host = block ?? `${below ? '*.' : ''}${name}`;
  const shown = host.includes(':') ? `[${host}]` : host;
  const isWeb = ports.join() === WEB_PORTS.join();
  const port = ports.length === 0 ? ':*' : isWeb ? '' : `:${ports.join('/')}`;
  return `${shown}${port}${isPrivate ? ' (private)' : ''}`;
}
