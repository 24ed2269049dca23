/**
 * The proxy through which a company's network lets connections out, as the daemon's environment names it (HTTPS_PROXY, NO_PROXY). Policies
 * still decide by name and address; the proxy only takes the place of the route.
 */
import type { Socket } from 'node:net';
import { containsBlock, parseAddress, parseBlock, reachOf, singleAddress } from '../../policy/address.ts';
import { type Destination, toHostName } from '../../policy/network.ts';
import { secured } from './secured.ts';

export interface OutgoingProxy extends Destination {
  /** `http://[USER:PASSWORD@]HOST:PORT`, or `https://…`, to which connections are made by TLS. */
  readonly url: string;
  /** Entries of NO_PROXY. */
  readonly direct: readonly string[];
}

/** Longest answer of a proxy to CONNECT, in bytes. */
const HEAD_BYTES_MAX = 16 * 1024;
const DIRECT_MAX = 256;

/**
 * The proxy that the environment names, with `password` where it names a user alone; undefined without one. Throws an Error for one that
 * can't be used, without its password.
 */
export function outgoingProxyIn(
  env: Readonly<Record<string, string | undefined>>,
  password: () => string | undefined,
): OutgoingProxy | undefined {
  const text = ['HTTPS_PROXY', 'https_proxy', 'HTTP_PROXY', 'http_proxy'].map((it) => env[it]).find(Boolean);
  if (text === undefined) return undefined;
  const url = URL.parse(text.includes('://') ? text : `http://${text}`);
  const host = url && toHostName(url.hostname);
  if (!url || !host || !['http:', 'https:'].includes(url.protocol))
    throw new Error('HTTPS_PROXY of the environment takes http://[USER:PASSWORD@]HOST:PORT, or https:// before it');
  if (url.username !== '' && url.password === '') url.password = password() ?? '';
  const direct = (env.NO_PROXY ?? env.no_proxy ?? '')
    .toLowerCase()
    .split(/[\s,]+/)
    .filter(Boolean);
  return {
    host,
    port: Number(url.port) || (url.protocol === 'https:' ? 443 : 80),
    url: url.href,
    direct: direct.slice(0, DIRECT_MAX),
  };
}

/** Whether a destination is reached without the proxy: NO_PROXY names it, or it is an address of this machine or its networks. */
export function goesDirect({ direct }: OutgoingProxy, { host, port }: Destination): boolean {
  const address = parseAddress(host);
  if (host === 'localhost' || (address !== undefined && reachOf(singleAddress(address)) !== 'public')) return true;
  return direct.some((entry) => {
    if (entry === '*') return true;
    const block = address === undefined ? undefined : parseBlock(entry);
    if (block && address !== undefined) return containsBlock(block, singleAddress(address));
    const [, name = '', own] = /^\*?\.?([^:]*)(?::(\d+))?$/.exec(entry) ?? [];
    return name !== '' && (own === undefined || Number(own) === port) && (host === name || host.endsWith(`.${name}`));
  });
}

/** Has the proxy at the other end of `socket` connect it to a destination. Rejects with what the proxy says. */
export async function connectThrough(plain: Socket, to: string, { url, host }: OutgoingProxy): Promise<Socket> {
  const { username, password, protocol } = new URL(url);
  const socket = protocol === 'https:' ? await secured(plain, host) : plain;
  const pair = [username, password].map(decodeURIComponent).join(':');
  const authorization = `Proxy-Authorization: Basic ${Buffer.from(pair).toString('base64')}`;
  const fields = [`CONNECT ${to} HTTP/1.1`, `Host: ${to}`, ...(username === '' ? [] : [authorization])];
  socket.write(`${fields.join('\r\n')}\r\n\r\n`);
  return new Promise((resolve, reject) => {
    let head = Buffer.alloc(0);
    const fail = (why: string) => {
      socket.destroy();
      reject(new Error(why));
    };
    const onReadable = () => {
      const piece = socket.read() as Buffer | null;
      if (piece === null) return;
      head = Buffer.concat([head, piece]);
      const end = head.indexOf('\r\n\r\n');
      if (end < 0)
        return head.length > HEAD_BYTES_MAX ? fail('the outgoing proxy sent no end of its answer') : undefined;
      socket.off('readable', onReadable).off('close', onClose);
      const [, status = ''] = /^HTTP\/1\.[01] (\d{3})/.exec(head.toString('latin1', 0, end)) ?? [];
      if (!status.startsWith('2')) return fail(`the outgoing proxy answered with ${status || 'no status'}`);
      if (head.length > end + 4) socket.unshift(head.subarray(end + 4));
      resolve(socket);
    };
    const onClose = () => reject(new Error('the outgoing proxy closed the connection'));
    socket.on('readable', onReadable).once('close', onClose);
  });
}

/** The variables by which programs find the proxy. */
export const variablesOf = ({ url, direct }: OutgoingProxy): Readonly<Record<string, string>> => ({
  HTTPS_PROXY: url,
  HTTP_PROXY: url,
  NO_PROXY: direct.join(','),
});
