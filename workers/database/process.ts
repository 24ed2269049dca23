/** Entry of the process of a database server: perimeter, and frames of the gateway on fd 3. It logs in to one server only. */
import { lookup } from 'node:dns/promises';
import { silentLog, systemPowers } from '../../src/base/powers.ts';
import type { ToServerProcess } from '../../src/services/databases/messages.ts';
import type { FromServerProcess } from '../../src/services/databases/server-process.ts';
import { GatewayLine } from '../gateway-line.ts';
import { establishPerimeter } from '../perimeter.ts';
import { Refused } from '../sqlite/refusals.ts';
import { Connector } from './connector.ts';
import { MysqlSession } from './mysql/session.ts';
import { SessionPool } from './pool.ts';
import { PostgresSession } from './postgres/session.ts';

/** Node's channel for descriptors, as in the egress proxy; nothing comes on it. */
const CHANNEL_FD = 4;

establishPerimeter(CHANNEL_FD);

const gateway = new GatewayLine<ToServerProcess, FromServerProcess>(receive, cancelAll);
const powers = systemPowers(silentLog);
let pool: SessionPool | undefined;

async function resolve(name: string): Promise<string[]> {
  return (await lookup(name, { all: true })).map((it) => it.address);
}

function receive(message: ToServerProcess): void {
  if ('setup' in message) {
    const { limits, login } = message.setup;
    gateway.limits = limits;
    const connector = new Connector({ login, resolve, limits, powers });
    const parts = { connector, limits, powers };
    const open = () => (login.kind === 'mysql' ? MysqlSession.open(parts) : PostgresSession.open(parts));
    pool = new SessionPool({ open, sessionsMax: limits.databaseSessionsMax });
    gateway.send({ ready: true });
  } else if ('ask' in message) void answer(message.ask);
  else void pool?.cancel(message.cancel.id);
}

async function answer({ id, asked, ...by }: Extract<ToServerProcess, { ask: object }>['ask']): Promise<void> {
  try {
    const found = await (pool as SessionPool).run(id, asked, by);
    gateway.send({ answered: { id, answer: found } });
  } catch (error) {
    if (!(error instanceof Refused)) throw error; // A bug: the process ends, and with it the call.
    gateway.send({ refused: { id, refusal: error.refusal } });
  }
}

/** What still runs at the server is cancelled. */
function cancelAll(): void {
  powers.after(1_000, () => process.exit(0));
  void pool?.end().then(() => process.exit(0));
}
