/** Connects to a PostgreSQL server: encryption, the user and the database that the operator configured, and the password. */
import { isIP } from 'node:net';
import type { Duplex } from 'node:stream';
import { connect as connectTls, TLSSocket } from 'node:tls';
import { continueSession, finalizeSession, type SaslSession, startSession } from 'pg/lib/crypto/sasl.js';
import { serialize } from 'pg-protocol';
import type { ServerLogin } from '../../../src/databases/messages.ts';
import { Refused } from '../../sqlite/refusals.ts';
import type { Connector } from '../connector.ts';
import type { SessionParts } from '../session.ts';
import { LOGIN_BYTES_MAX } from '../wire-bounds.ts';
import type { ServerMessage, Told } from './messages.ts';
import { ConnectionLost, PostgresWire } from './wire.ts';

/** Identifies a session to the server, to cancel what it runs. */
export interface Backend {
  readonly processId: number;
  readonly secretKey: number;
}

export interface LoggedIn {
  readonly wire: PostgresWire;
  readonly backend: Backend;
}

/** Logs in. Throws Refused. */
export async function login({ connector, limits, powers }: SessionParts): Promise<LoggedIn> {
  const opened = Promise.withResolvers<never>();
  opened.promise.catch(() => {}); // Avoids an unhandled rejection after the login.
  const timer = powers.after(limits.egressConnectMs, () => opened.reject(noAnswer(connector.login)));
  let stream: Duplex | undefined;
  const working = (async () => {
    stream = await openStream(connector);
    return await authenticate(stream, connector.login);
  })();
  try {
    return await Promise.race([working, opened.promise]);
  } catch (error) {
    working.then(
      ({ wire }) => wire.fail(new ConnectionLost('too late')),
      () => {},
    );
    stream?.destroy();
    throw error;
  } finally {
    timer.cancel();
  }
}

/** Asks the server to end what a session runs; resolves when the server has taken the request. Throws Refused. */
export async function requestCancel(connector: Connector, { processId, secretKey }: Backend): Promise<void> {
  const stream = await openStream(connector);
  const closed = Promise.withResolvers<void>();
  stream.on('error', () => {}).on('close', closed.resolve);
  stream.resume().write(serialize.cancel(processId, secretKey));
  await closed.promise;
}

/** A connection on which the protocol begins, encrypted unless the operator turned that off. */
async function openStream(connector: Connector): Promise<Duplex> {
  const socket = await connector.connect();
  const { host, port, tls, caPem } = connector.login;
  if (tls === 'off') return socket;
  const answer = Promise.withResolvers<Buffer>();
  const ended = () => answer.reject(noAnswer(connector.login));
  socket.once('data', answer.resolve).once('close', ended);
  socket.write(serialize.requestSsl());
  const bytes = await answer.promise;
  socket.off('close', ended);
  // Anything behind the one letter would count as encrypted although it was not.
  if (bytes.length !== 1 || bytes[0] !== 'S'.charCodeAt(0)) {
    socket.destroy();
    throw new Refused('UPSTREAM_FAILED', `${host}:${port} does not offer encryption`, NO_TLS);
  }
  return encrypted(socket, { host, port, caPem });
}

function encrypted(
  socket: Duplex,
  { host, port, caPem }: Pick<ServerLogin, 'host' | 'port' | 'caPem'>,
): Promise<TLSSocket> {
  const named = isIP(host) === 0 ? { servername: host } : {};
  const secured = connectTls({ socket, host, ...named, ...(caPem !== undefined && { ca: caPem }) });
  return new Promise((resolve, reject) => {
    secured.once('secureConnect', () => resolve(secured));
    secured.once('error', (error: NodeJS.ErrnoException) => {
      const reason = error.code ?? 'the encryption failed';
      reject(new Refused('UPSTREAM_FAILED', `${host}:${port} could not be verified: ${reason}`, UNVERIFIED));
    });
    secured.once('close', () => reject(noAnswer({ host, port })));
  });
}

async function authenticate(stream: Duplex, server: ServerLogin): Promise<LoggedIn> {
  const wire = new PostgresWire(stream);
  const { user, database } = server;
  const authentication = new Authentication(wire, stream, server);
  let backend: Backend | undefined;
  const take = (message: ServerMessage) => {
    if (message.kind === 'backend') backend = message;
    else if (message.kind === 'login') authentication.take(message.step, message.data);
  };
  const startup = serialize.startup({ user, database, application_name: 'ringfence', DateStyle: 'ISO, YMD' });
  let error: Told | undefined;
  try {
    error = await wire.exchange([startup], { bytesMax: LOGIN_BYTES_MAX, take });
  } catch (lost) {
    throw lost instanceof ConnectionLost ? noAnswer(server, lost.message) : lost;
  }
  if (!error && backend) return { wire, backend };
  wire.fail(new ConnectionLost('the login failed'));
  throw error ? refusedLogin(error, server) : noAnswer(server);
}

/** Steps of a login as PostgreSQL numbers them. */
const [OK, CLEARTEXT, SASL, SASL_CONTINUE, SASL_FINAL] = [0, 3, 10, 11, 12];

/** Answers what the server asks until it lets the user in. */
class Authentication {
  readonly #wire: PostgresWire;
  readonly #server: ServerLogin;
  readonly #tls: TLSSocket | null;
  #sasl: SaslSession | undefined;
  #isProven = false;

  constructor(wire: PostgresWire, stream: Duplex, server: ServerLogin) {
    this.#wire = wire;
    this.#server = server;
    this.#tls = stream instanceof TLSSocket ? stream : null;
  }

  /** Throws an Error, which ends the connection. */
  take(step: number, data: Buffer): void {
    if (step === SASL) {
      const mechanisms = data.toString('latin1').split('\0');
      this.#sasl = startSession(mechanisms, this.#tls);
      this.#wire.send([serialize.sendSASLInitialResponseMessage(this.#sasl.mechanism, this.#sasl.response)]);
    } else if (step === SASL_CONTINUE) void this.#continue(data.toString('utf8'));
    else if (step === SASL_FINAL) {
      finalizeSession(this.#started, data.toString('utf8'));
      this.#isProven = true;
    } else if (step === CLEARTEXT && this.#tls) this.#wire.send([serialize.password(this.#password)]);
    else if (step !== OK) throw new Error('a request for a login other than SCRAM-SHA-256');
    else if (this.#sasl && !this.#isProven) throw new Error('no proof that it knows the password');
  }

  async #continue(data: string): Promise<void> {
    try {
      await continueSession(this.#started, this.#password, data, this.#tls);
      this.#wire.send([serialize.sendSCRAMClientFinalMessage(this.#started.response)]);
    } catch (error) {
      this.#wire.fail(new ConnectionLost((error as Error).message));
    }
  }

  get #started(): SaslSession {
    if (!this.#sasl) throw new Error('a step of a login that did not begin');
    return this.#sasl;
  }

  get #password(): string {
    const { password } = this.#server;
    if (password !== undefined) return password;
    throw new Error('a request for a password, and the connection has none');
  }
}

const NO_TLS = 'Ask the person to turn encryption on at the server.';
const UNVERIFIED = "Ask the person to name the certificate of the server's authority with --ca.";

const noAnswer = ({ host, port }: Pick<ServerLogin, 'host' | 'port'>, why = 'it gave no answer'): Refused =>
  new Refused('UPSTREAM_FAILED', `${host}:${port} can't be used: ${why.slice(0, 300).toWellFormed()}`);

/** The refusal for an error of the login. */
function refusedLogin({ code }: Told, { host, port, user, database }: ServerLogin): Refused {
  const at = `${host}:${port}`;
  if (code.startsWith('28'))
    return new Refused('AUTH_REQUIRED', `${at} does not let \`${user}\` in`, 'Ask the person to check the secret.');
  if (code === '3D000') return new Refused('NOT_FOUND', `${at} has no database \`${database}\``);
  if (code.startsWith('53')) return new Refused('UPSTREAM_FAILED', `${at} has no connection left`);
  return new Refused('UPSTREAM_FAILED', `${at} refused the login (SQLSTATE ${code.slice(0, 5)})`);
}
