/** The bus: a connection to nats-server over TLS. Its packages are loaded only when a fleet is used. */
import type { NatsConnection, NodeConnectionOptions } from '@nats-io/transport-node';
import type { Limits } from '../base/limits.ts';
import type { Powers } from '../base/powers.ts';
import type { Credential } from './credential.ts';
import { FleetError } from './fleet-error.ts';
import { LeaseStore } from './leases.ts';
import { type FleetLink, Unanswered } from './link.ts';
import { inboxOf } from './subjects.ts';

export interface MemberKeys {
  readonly seed: string;
  readonly publicKey: string;
  /** Signs with the private key; base64. */
  sign(text: string): string;
}

/** Makes keys, or reads them from a seed. Throws FleetError. */
export async function memberKeys(seed?: string): Promise<MemberKeys> {
  const { createUser, fromSeed } = await import('@nats-io/nkeys');
  const pair = seed === undefined ? createUser() : fromSeed(Buffer.from(seed));
  return {
    seed: Buffer.from(pair.getSeed()).toString(),
    publicKey: pair.getPublicKey(),
    sign: (text) => Buffer.from(pair.sign(Buffer.from(text))).toString('base64'),
  };
}

/** Whether the owner of a public nkey has signed a text. Throws FleetError. */
export async function isSignedBy(publicKey: string, text: string, signature: string): Promise<boolean> {
  const { fromPublic } = await import('@nats-io/nkeys');
  const bytes = Buffer.from(signature, 'base64');
  return bytes.length === 64 && fromPublic(publicKey).verify(Buffer.from(text), bytes);
}

export interface ConnectOptions {
  readonly credential: Pick<Credential, 'url' | 'ca' | 'seed'>;
  /** Prefix of the subjects of answers, which the server lets nobody else hear. */
  readonly inbox: string;
  /** Whether to go on trying if the bus is not there yet. */
  readonly waits: boolean;
  readonly limits: Limits;
  readonly powers: Pick<Powers, 'log'>;
}

/** Time after which a bus that does not answer is connected to again, twice this long at most. */
const PING_MS = 2_000;
/** The client does not notice a server that closes before it has answered, as it can while it reads its roster again. */
const CONNECT_MS = 3_000;
const RECONNECT_MS = 250;

/** Connects a member to its bus as soon as that is there. Throws FleetError. */
export const connectMember = (
  credential: Credential,
  parts: Pick<ConnectOptions, 'limits' | 'powers'>,
): Promise<FleetLink> =>
  connectBus({ ...parts, credential, inbox: inboxOf(credential.role, credential.name), waits: true });

/** Connects to the bus of a credential, and again whenever the connection is lost. Throws FleetError. */
export async function connectBus(options: ConnectOptions): Promise<FleetLink> {
  const { connect, nkeyAuthenticator } = await import('@nats-io/transport-node');
  const { url, ca, seed } = options.credential;
  // The client passes further options on to node:tls.
  const tls = { ca, minVersion: 'TLSv1.3' } as NonNullable<NodeConnectionOptions['tls']>;
  try {
    const connection = await connect({
      servers: url,
      tls,
      authenticator: nkeyAuthenticator(Buffer.from(seed)),
      inboxPrefix: options.inbox,
      // The server may name further servers, which nobody has checked.
      ignoreClusterUpdates: true,
      maxReconnectAttempts: -1,
      reconnectTimeWait: RECONNECT_MS,
      waitOnFirstConnect: options.waits,
      // A member that was revoked goes on asking: its node's own sessions don't depend on the bus.
      ignoreAuthErrorAbort: options.waits,
      timeout: CONNECT_MS,
      pingInterval: PING_MS,
      maxPingOut: 2,
    });
    return new NatsLink(connection, options);
  } catch (error) {
    throw new FleetError(`the bus ${url} can't be used: ${(error as Error).message}`);
  }
}

class NatsLink implements FleetLink {
  readonly leases: LeaseStore;
  readonly #connection: NatsConnection;
  readonly #options: ConnectOptions;
  #isConnected = true;

  constructor(connection: NatsConnection, options: ConnectOptions) {
    this.#connection = connection;
    this.leases = new LeaseStore(connection);
    this.#options = options;
    void this.#watch();
  }

  get isConnected(): boolean {
    return this.#isConnected && !this.#connection.isClosed();
  }

  publish(subject: string, data: Uint8Array): void {
    if (this.isConnected) this.#connection.publish(subject, data);
  }

  async flushed(): Promise<void> {
    await this.#connection.flush().catch(() => {}); // The connection was lost, and with it what was published.
  }

  subscribe(subject: string, hear: Parameters<FleetLink['subscribe']>[1]): Disposable {
    const { limits, powers } = this.#options;
    const subscription = this.#connection.subscribe(subject, {
      callback(error, message) {
        if (error) return powers.log.warn({ subject, reason: error.message }, 'the bus refuses a subscription');
        if (message.data.length > limits.fleetMessageBytesMax)
          return powers.log.warn({ subject, bytes: message.data.length }, 'a message on the bus is too large');
        hear({ subject: message.subject, data: message.data, respond: (data) => void message.respond(data) });
      },
    });
    return { [Symbol.dispose]: () => subscription.unsubscribe() };
  }

  async request(subject: string, data: Uint8Array, timeoutMs: number): Promise<Uint8Array> {
    if (!this.isConnected) throw new Unanswered('nobody', subject);
    const { RequestError } = await import('@nats-io/transport-node');
    try {
      const answer = await this.#connection.request(subject, data, { timeout: timeoutMs });
      if (answer.data.length <= this.#options.limits.fleetMessageBytesMax) return answer.data;
    } catch (error) {
      if (error instanceof RequestError && error.isNoResponders()) throw new Unanswered('nobody', subject);
    }
    throw new Unanswered('late', subject);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#connection.close();
  }

  async #watch(): Promise<void> {
    const { log } = this.#options.powers;
    for await (const { type } of this.#connection.status()) {
      if (type === 'disconnect') this.#isConnected = false;
      if (type === 'reconnect') this.#isConnected = true;
      if (type === 'disconnect' || type === 'reconnect') log.info({ bus: this.#options.credential.url }, `${type}ed`);
    }
  }
}
