/** Entry of the process of a database server: perimeter, and frames of the gateway on fd 3. It logs in to one server only. */
import { lookup } from 'node:dns/promises';
import { Socket } from 'node:net';
import type { Limits } from '../../src/base/limits.ts';
import { silentLog, systemPowers } from '../../src/base/powers.ts';
import type { FromServerProcess, ToServerProcess } from '../../src/services/databases/messages.ts';
import { decode } from '../../src/wire/protocol/codec.ts';
import { FrameReader, toFrame } from '../../src/wire/protocol/frame.ts';
import { establishPerimeter } from '../perimeter.ts';
import { Refused } from '../sqlite/refusals.ts';
import { Connector } from './connector.ts';
import { MysqlSession } from './mysql/session.ts';
import { SessionPool } from './pool.ts';
import { PostgresSession } from './postgres/session.ts';

const GATEWAY_FD = 3;

/** Node's channel for descriptors, as in the egress proxy; nothing comes on it. */
const CHANNEL_FD = 4;

establishPerimeter(CHANNEL_FD);

const gateway = new Socket({ fd: GATEWAY_FD, readable: true, writable: true });
const powers = systemPowers(silentLog);
let limits: Limits | undefined;
let pool: SessionPool | undefined;

async function resolve(name: string): Promise<string[]> {
  return (await lookup(name, { all: true })).map((it) => it.address);
}

function send(message: FromServerProcess): void {
  gateway.write(toFrame(message, (limits as Limits).frameBytesMax));
}

function receive(message: ToServerProcess): void {
  if ('setup' in message) {
    const { limits: given, login } = message.setup;
    limits = given;
    const connector = new Connector({ login, resolve, limits, powers });
    const parts = { connector, limits, powers };
    const open = () => (login.kind === 'mysql' ? MysqlSession.open(parts) : PostgresSession.open(parts));
    pool = new SessionPool({ open, sessionsMax: limits.databaseSessionsMax });
    send({ ready: true });
  } else if ('ask' in message) void answer(message.ask);
  else void pool?.cancel(message.cancel.id);
}

async function answer({ id, asked, ...by }: Extract<ToServerProcess, { ask: object }>['ask']): Promise<void> {
  try {
    const found = await (pool as SessionPool).run(id, asked, by);
    send({ answered: { id, answer: found } });
  } catch (error) {
    if (!(error instanceof Refused)) throw error; // A bug: the process ends, and with it the call.
    send({ refused: { id, refusal: error.refusal } });
  }
}

const reader = new FrameReader(2 ** 32 - 1);
/** Bounds until the setup arrives; the gateway bounds the frames that it sends. */
const BEFORE_SETUP = { messageDepthMax: 64, messageElementsMax: 1_000_000 };
gateway.on('data', (chunk: Buffer) => {
  for (const payload of reader.push(chunk)) receive(decode(payload, limits ?? BEFORE_SETUP) as ToServerProcess);
});
gateway.on('error', () => {}); // 'close' follows.
// The gateway is gone: what still runs at the server is cancelled, and nothing is left to do.
gateway.on('close', () => {
  powers.after(1_000, () => process.exit(0));
  void pool?.end().then(() => process.exit(0));
});
