/** Connects to a PostgreSQL server with pg: encryption, the user and the database that the operator configured, the password. */
import { once } from 'node:events';
import { TLSSocket } from 'node:tls';
import pg from 'pg';
import type { ServerLogin } from '../../../src/services/databases/messages.ts';
import { Refused } from '../../sqlite/refusals.ts';
import { BoundedStream } from '../bounded-stream.ts';
import type { SessionParts } from '../session.ts';
import { LOGIN_BYTES_MAX } from '../wire-bounds.ts';

/** What pg has beside its types. */
interface Wire extends pg.Connection {
  connect(port: number, host: string): void;
  requestSsl(): void;
  cancel(processId: number, secretKey: number): void;
}

export interface Line {
  readonly client: pg.Client & {
    readonly connection: Wire;
    readonly processID: number | null;
    readonly secretKey: number;
  };
  /** Counts what the server sends. */
  readonly stream: BoundedStream;
}

/** Logs in. Throws Refused. */
export async function login(parts: SessionParts): Promise<Line> {
  const line = await open(parts);
  const { client, stream } = line;
  const { tls } = parts.connector.login;
  let isUnproven = false;
  const refuse = () => client.connection.stream.destroy(new Error('a request for a login other than SCRAM-SHA-256')); // Before pg answers.
  client.connection.on('authenticationMD5Password', refuse);
  if (tls === 'off') client.connection.on('authenticationCleartextPassword', refuse);
  client.connection.on('authenticationSASL', () => {
    isUnproven = true;
  });
  // pg compares the proof that comes with this, but does not miss it.
  client.connection.on('authenticationSASLFinal', () => {
    isUnproven = false;
  });
  try {
    await client.connect();
    if (isUnproven) throw new Error('no proof that it knows the password');
    if (client.processID === null) throw new Error('no number of the session');
    return line;
  } catch (error) {
    stream.destroy();
    throw refusedLogin(error as Error, client.connection.stream, parts.connector.login);
  }
}

/** Asks the server to end what a session runs; resolves when the server has taken the request. Throws Refused. */
export async function requestCancel(parts: SessionParts, { processID, secretKey }: Line['client']): Promise<void> {
  const { connection } = (await open(parts)).client;
  const { host, port, tls } = parts.connector.login;
  const closed = once(connection, 'end'); // Rejects if the connection breaks.
  if (tls === 'verify') connection.once('connect', () => connection.requestSsl());
  connection.once(tls === 'off' ? 'connect' : 'sslconnect', () => connection.cancel(processID as number, secretKey));
  connection.connect(port, host);
  await closed;
}

/** A client on a connection that is open. Nothing is sent yet. Throws Refused. */
async function open({ connector, limits }: SessionParts): Promise<Line> {
  const { host, port, user, database, password, tls, caPem } = connector.login;
  const stream = new BoundedStream(await connector.connect(), LOGIN_BYTES_MAX);
  const client = new pg.Client({
    stream: () => connectedStream(stream),
    host,
    port,
    user,
    database,
    application_name: 'ringfence',
    ssl: tls === 'verify' && { rejectUnauthorized: true, ca: caPem },
    enableChannelBinding: tls === 'verify',
    connectionTimeoutMillis: limits.egressConnectMs,
    password: () => {
      if (password !== undefined) return password;
      throw new Error('a request for a password, and the connection has none');
    },
  }) as Line['client'];
  // Each statement tells its own; after a message that none expects, nothing that follows has a meaning.
  client.on('error', () => stream.destroy());
  client.connection.on('sslconnect', () => {
    const secured = client.connection.stream;
    secured.cork(); // Nothing is sent to a server that is not verified.
    secured.once('secureConnect', () => secured.uncork());
  });
  return { client, stream };
}

/** The stream as pg wants to connect it. */
const connectedStream = (stream: BoundedStream): BoundedStream =>
  Object.assign(stream, { connect: () => process.nextTick(() => stream.emit('connect')), setNoDelay: () => {} });

/** The refusal for an error of the login. */
function refusedLogin(error: Error, stream: object, { host, port, user, database }: ServerLogin): Refused {
  const at = `${host}:${port}`;
  if (error instanceof pg.DatabaseError) {
    const { code = '' } = error;
    if (code.startsWith('28'))
      return new Refused('AUTH_REQUIRED', `${at} does not let \`${user}\` in`, 'Ask the person to check the secret.');
    if (code === '3D000') return new Refused('NOT_FOUND', `${at} has no database \`${database}\``);
    if (code.startsWith('53')) return new Refused('UPSTREAM_FAILED', `${at} has no connection left`);
    return new Refused('UPSTREAM_FAILED', `${at} refused the login (SQLSTATE ${code.slice(0, 5)})`);
  }
  const { message } = error;
  if (stream instanceof TLSSocket && stream.authorizationError)
    return new Refused('UPSTREAM_FAILED', `${at} could not be verified: ${stream.authorizationError}`, UNVERIFIED);
  if (/SSL/.test(message)) return new Refused('UPSTREAM_FAILED', `${at} does not offer encryption`, NO_TLS);
  return new Refused('UPSTREAM_FAILED', `${at} can't be used: ${message.slice(0, 300).toWellFormed()}`);
}

const NO_TLS = 'Ask the person to turn encryption on at the server.';
const UNVERIFIED = "Ask the person to name the certificate of the server's authority with --ca.";
