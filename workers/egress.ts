/** Entry of the egress proxy: perimeter, frames of the gateway on fd 3, listeners of commands on fd 4. */
import { lookup, resolve4, resolve6 } from 'node:dns/promises';
import { Socket } from 'node:net';
import type { FromProxy, ToProxy } from '../src/egress/messages.ts';
import { EgressProxy } from '../src/egress/proxy.ts';
import type { Limits } from '../src/limits.ts';
import { silentLog, systemPowers } from '../src/powers.ts';
import { decode } from '../src/protocol/codec.ts';
import { FrameReader, toFrame } from '../src/protocol/frame.ts';
import { establishPerimeter } from './perimeter.ts';

const GATEWAY_FD = 3;
const LISTENERS_FD = 4;

establishPerimeter(LISTENERS_FD);

const gateway = new Socket({ fd: GATEWAY_FD, readable: true, writable: true });
const powers = systemPowers(silentLog);
let limits: Limits | undefined;
let proxy: EgressProxy | undefined;

/** Addresses of a name, in the order of the machine's settings. */
async function resolve(name: string): Promise<string[]> {
  return (await lookup(name, { all: true })).map((it) => it.address);
}

/** The shortest TTL of the name's DNS records, in milliseconds. */
async function ttlOf(name: string): Promise<number | undefined> {
  const records = await Promise.allSettled([resolve4(name, { ttl: true }), resolve6(name, { ttl: true })]);
  const seconds = records.flatMap((it) => (it.status === 'fulfilled' ? it.value.map(({ ttl }) => ttl) : []));
  return seconds.length > 0 ? Math.min(...seconds) * 1000 : undefined;
}

function send(message: FromProxy): void {
  gateway.write(toFrame(message, (limits as Limits).frameBytesMax));
}

function receive(message: ToProxy): void {
  if ('setup' in message) {
    ({ limits } = message.setup);
    proxy = new EgressProxy({ limits, powers, resolve, ttlOf });
    send({ ready: true });
  } else if ('open' in message) {
    proxy?.open(message.open.token, message.open.layers);
    send({ opened: message.open.token });
  } else if ('fetch' in message) {
    const { token, asked } = message.fetch;
    void proxy?.fetch(token, asked).then((answer) => {
      if (answer) send({ fetched: { token, answer } });
    });
  } else if (proxy) {
    const { token } = message.close;
    send({ closed: { token, report: proxy.close(token) } });
  }
}

// Node receives descriptors only through its own IPC channel; src/sandbox/listener-program.ts speaks that protocol.
process.on('message', (message: unknown, handle: unknown) => {
  const { token } = (message ?? {}) as { token?: unknown };
  const came = handle as { close?: () => void } | undefined;
  if (typeof token !== 'string' || typeof came !== 'object' || !proxy?.listen(token, came)) came?.close?.();
});

const reader = new FrameReader(2 ** 32 - 1);
/** Bounds until the setup arrives; the gateway bounds the frames that it sends. */
const BEFORE_SETUP = { messageDepthMax: 64, messageElementsMax: 1_000_000 };
gateway.on('data', (chunk: Buffer) => {
  for (const payload of reader.push(chunk)) receive(decode(payload, limits ?? BEFORE_SETUP) as ToProxy);
});
// The gateway is gone, so this process has nothing left to do.
gateway.on('close', () => process.exit(0));
gateway.on('error', () => process.exit(0));
