/**
 * Network rules of policies: the entries of `tiers.execute.network`, and what they allow for a name, a port and an address. Plain data,
 * since rules are sent to the egress proxy. Pure.
 */
import { type AddressBlock, containsBlock, parseAddress, parseBlock, reachOf, singleAddress } from './address.ts';

/** One entry of an allowlist. */
export interface NetworkRule {
  /** Lower-case ASCII without a trailing dot; absent if `block` is present. */
  readonly name?: string;
  /** Whether the rule means the subdomains of the name (`*.example.org`) and not the name itself. */
  readonly includesSubdomains?: boolean;
  /** A CIDR block such as `10.0.0.0/8`, or a single address. */
  readonly block?: string;
  /** Allowed ports; empty means all. */
  readonly ports: readonly number[];
  /** Whether the name may resolve to this machine and its networks. */
  readonly private: boolean;
}

/** The rules of one layer of a policy; a connection needs every layer to allow it. */
export type NetworkLayer = readonly NetworkRule[];

/** An entry as written in a policy file. */
export type NetworkEntry =
  | string
  | { host: string; port?: number | number[] | '*' | undefined; private?: boolean | undefined };

/** Ports of an entry without a port. */
const WEB_PORTS = [80, 443];

/** Parses an entry. Throws an Error that says what is wrong with it. */
export function parseNetworkEntry(entry: NetworkEntry): NetworkRule {
  if (typeof entry !== 'string') {
    const rule = parseNetworkEntry(entry.host);
    if (entry.port !== undefined && portOf(entry.host).port !== undefined)
      throw new Error(`${entry.host} already has a port; leave out \`port\``);
    const ports = entry.port === undefined ? rule.ports : entry.port === '*' ? [] : [entry.port].flat();
    return { ...rule, ports, private: entry.private ?? false };
  }
  const { host, port } = portOf(entry);
  const ports = port === undefined ? WEB_PORTS : port === '*' ? [] : [Number(port)];
  if (ports.some((it) => it < 1 || it > 65_535))
    throw new Error(`${entry}: a port must be a number from 1 to 65535, or *`);
  const block = parseBlock(host);
  if (block) return { block: host, ports, private: false };
  const includesSubdomains = host.startsWith('*.');
  const name = toHostName(includesSubdomains ? host.slice(2) : host);
  if (name === undefined || host.includes('/') || parseAddress(name) !== undefined)
    throw new Error(`${entry} is not a host, *.domain, address or address block, with or without :port`);
  return { name, ...(includesSubdomains && { includesSubdomains }), ports, private: false };
}

/** The rule for the server of a URL with http:// or https://. Throws an Error for a host that no name server could know. */
export const ruleOfServer = ({ hostname, port, protocol }: URL, isPrivate: boolean): NetworkRule =>
  parseNetworkEntry({
    host: hostname,
    port: Number(port) || (protocol === 'https:' ? 443 : 80),
    private: isPrivate,
  });

/** Splits `host`, `host:port` or `[v6]:port`; a bare IPv6 address has no port. */
function portOf(text: string): { host: string; port?: string | undefined } {
  const bracketed = /^\[([^\]]*)\](?::(\d{1,5}|\*))?$/.exec(text);
  if (bracketed) return { host: bracketed[1] as string, port: bracketed[2] };
  const plain = /^([^:]*):(\d{1,5}|\*)$/.exec(text);
  return plain ? { host: plain[1] as string, port: plain[2] } : { host: text };
}

const HOST_CHARS_MAX = 253;

/**
 * A host in its canonical form: lower-case ASCII without a trailing dot. An IP address gets one spelling, whether written in decimal,
 * octal, hexadecimal or in parts. Undefined if the text is no host.
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

/** Why a connection is refused. */
export interface ConnectionRefusal {
  /** The refusing side: the policy's list, or the sandbox, for addresses that a list must name explicitly. */
  readonly layer: 'policy' | 'sandbox';
  readonly reason: string;
}

export interface Destination {
  /** Canonical form from `toHostName`. */
  readonly host: string;
  readonly port: number;
}

/** Checks a connection before any DNS lookup, so that names which a layer does not list are not revealed. */
export function refusedName(layers: readonly NetworkLayer[], to: Destination): ConnectionRefusal | undefined {
  const literal = parseAddress(to.host);
  for (const rules of layers) {
    const named =
      literal === undefined
        ? rules.filter((it) => names(it, to.host))
        : rules.filter((it) => blockOf(it) && containsBlock(blockOf(it) as AddressBlock, singleAddress(literal)));
    if (named.some((it) => opens(it, to.port))) continue;
    if (literal !== undefined && named.length === 0 && reachOf(singleAddress(literal)) !== 'public')
      return refusedAddress(layers, { ...to, address: to.host });
    const what = named.length > 0 ? `port ${to.port} of ${to.host}` : to.host;
    return { layer: 'policy', reason: `${what} is not in the policy's list` };
  }
  return undefined;
}

/** The lists of a policy's layers, and which of the layers have a person asked about other hosts. */
export interface AskingLayers {
  readonly layers: readonly NetworkLayer[];
  readonly asks: readonly boolean[];
}

/**
 * Whether a person may be asked about a host: every layer lists it or has hosts asked about, and it is a public address, or a name with
 * a domain, since other names lead to this machine and its networks.
 */
export function mayAsk({ layers, asks }: AskingLayers, to: Destination): boolean {
  const address = parseAddress(to.host);
  const isNamed = to.host.includes('.') && !/\.(?:localhost|local|internal|home\.arpa|lan|onion)$/.test(to.host);
  const isPublic = address === undefined ? isNamed : reachOf(singleAddress(address)) === 'public';
  return isPublic && layers.every((it, at) => asks[at] || refusedName([it], to) === undefined);
}

/** The layers with what a person opened. */
export const withOpened = ({ layers, asks }: AskingLayers, opened: NetworkLayer): NetworkLayer[] =>
  layers.map((it, at) => (asks[at] ? [...it, ...opened] : it));

/** Checks the address that a listed name resolved to, or that was given instead of a name. */
export function refusedAddress(
  layers: readonly NetworkLayer[],
  { host, port, address }: Destination & { address: string },
): ConnectionRefusal | undefined {
  const number = parseAddress(address);
  if (number === undefined) return { layer: 'sandbox', reason: `${address} is no address` };
  const reach = reachOf(singleAddress(number));
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
  if (!containsBlock(block, singleAddress(to.number))) return false;
  // The author of a wide block did not have the special addresses in it in mind.
  if (to.reach === 'special') return block.prefix === singleAddress(0n).prefix;
  return to.reach === 'public' || reachOf(block) === 'private';
}

const opens = ({ ports }: NetworkRule, port: number): boolean => ports.length === 0 || ports.includes(port);
const names = ({ name, includesSubdomains }: NetworkRule, host: string): boolean =>
  name !== undefined && (includesSubdomains ? host.endsWith(`.${name}`) : host === name);
const blockOf = ({ block }: NetworkRule): AddressBlock | undefined =>
  block === undefined ? undefined : parseBlock(block);

/** Whether `outer` allows everything that `inner` allows. */
export function covers(outer: NetworkRule, inner: NetworkRule): boolean {
  const ports = outer.ports.length === 0 || (inner.ports.length > 0 && inner.ports.every((it) => opens(outer, it)));
  if (!ports || (inner.private && !outer.private)) return false;
  const [around, within] = [blockOf(outer), blockOf(inner)];
  if (around || within) return around !== undefined && within !== undefined && isSafelyWithin(around, within);
  if (!outer.includesSubdomains) return !inner.includesSubdomains && outer.name === inner.name;
  return inner.name?.endsWith(`.${outer.name}`) || (inner.includesSubdomains === true && inner.name === outer.name);
}

/** Whether one block lies in another that allows all of it; a block allows special addresses only if it is exactly that block. */
const isSafelyWithin = (around: AddressBlock, within: AddressBlock): boolean =>
  containsBlock(around, within) &&
  (reachOf(within) === 'public' || reachOf(around) === reachOf(within)) &&
  (reachOf(within) !== 'special' || around.prefix === within.prefix);

/** The rule in the notation of a policy file. */
export function showNetworkRule({ name, includesSubdomains, block, ports, private: isPrivate }: NetworkRule): string {
  const host = block ?? `${includesSubdomains ? '*.' : ''}${name}`;
  const shown = host.includes(':') ? `[${host}]` : host;
  const isWeb = ports.join() === WEB_PORTS.join();
  const port = ports.length === 0 ? ':*' : isWeb ? '' : `:${ports.join('/')}`;
  return `${shown}${port}${isPrivate ? ' (private)' : ''}`;
}
