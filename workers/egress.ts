/** Entry of the egress proxy: perimeter, frames of the gateway on fd 3, listeners of commands on fd 4. */
import { lookup, resolve4, resolve6 } from 'node:dns/promises';
import { silentLog, systemPowers } from '../src/base/powers.ts';
import { IdleHeap } from '../src/hosts/idle-heap.ts';
import type { DoorAnswer, DoorQuestion, ToProxy } from '../src/sandbox/egress/messages.ts';
import { EgressProxy } from '../src/sandbox/egress/proxy.ts';
import type { ProxyMessage } from '../src/sandbox/egress/proxy-messages.ts';
import { GatewayLine } from './gateway-line.ts';
import { establishPerimeter } from './perimeter.ts';

const LISTENERS_FD = 4;
const TOKEN_CHARS_MAX = 256;

establishPerimeter(LISTENERS_FD);

const gateway = new GatewayLine<ToProxy, ProxyMessage>(receive);
const powers = systemPowers(silentLog);
const heap = new IdleHeap(powers);
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

/** Questions that wait for the gateway, by their numbers. */
const asked = new Map<number, (answer: DoorAnswer) => void>();
let nextQuestion = 1;

function ask(token: string, question: DoorQuestion): Promise<DoorAnswer> {
  const id = nextQuestion++;
  gateway.send({ asked: { token, id, question } });
  return new Promise((resolve) => asked.set(id, resolve));
}

function receive(message: ToProxy): void {
  heap.used();
  if ('setup' in message) {
    const { limits, outgoing } = message.setup;
    gateway.limits = limits;
    proxy = new EgressProxy({ limits, powers, resolve, ttlOf, ask, outgoing });
    gateway.send({ ready: true });
  } else if ('open' in message) {
    proxy?.open(message.open.token, message.open);
    gateway.send({ opened: message.open.token });
  } else if ('answer' in message) {
    const { id, answer } = message.answer;
    asked.get(id)?.(answer);
    asked.delete(id);
  } else if ('fetch' in message) {
    const { token, asked: request } = message.fetch;
    void proxy?.fetch(token, request).then((answer) => {
      if (answer) gateway.send({ fetched: { token, answer } });
    });
  } else if (proxy) {
    const { token } = message.close;
    gateway.send({ closed: { token, report: proxy.close(token) } });
  }
}

// Node receives descriptors only through its own IPC channel; native/door.c speaks that protocol.
process.on('message', (message: unknown, handle: unknown) => {
  const { token, name, service } = (message ?? {}) as Record<string, unknown>;
  const came = handle as { close?: () => void } | undefined;
  if (!proxy || typeof token !== 'string' || token.length > TOKEN_CHARS_MAX) return came?.close?.();
  const isKnown =
    typeof came === 'object'
      ? proxy.listen(token, came, Number(service) || undefined)
      : proxy.notice(token, String(name).slice(0, 253));
  if (!isKnown) gateway.send({ arrived: token });
});
