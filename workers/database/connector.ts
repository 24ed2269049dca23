/** Connects to the one server of this process, at an address that was checked. */
import type { Socket } from 'node:net';
import type { Limits } from '../../src/base/limits.ts';
import type { Powers } from '../../src/base/powers.ts';
import { parseAddress, reachOf, singleAddress } from '../../src/policy/address.ts';
import { parseNetworkEntry } from '../../src/policy/network.ts';
import {
  ConnectionGuard,
  ConnectionRefused,
  DestinationUnreachable,
} from '../../src/sandbox/egress/connection-guard.ts';
import { DnsCache, type Resolve } from '../../src/sandbox/egress/dns-cache.ts';
import type { ServerLogin } from '../../src/services/databases/messages.ts';
import { Refused } from '../sqlite/refusals.ts';

export interface ConnectorOptions {
  readonly login: ServerLogin;
  readonly resolve: Resolve;
  readonly limits: Limits;
  readonly powers: Powers;
}

export class Connector {
  readonly login: ServerLogin;
  readonly #guard: ConnectionGuard;

  constructor({ login, resolve, limits, powers }: ConnectorOptions) {
    this.login = login;
    const { host, port } = login;
    const entry = parseNetworkEntry({ host, port, private: login.private });
    const ttlOf = async () => undefined;
    const names = new DnsCache({ resolve, ttlOf, limits, powers });
    this.#guard = new ConnectionGuard({ layers: [[entry]], limits, powers, names });
  }

  /** Connects. Throws Refused. */
  async connect(): Promise<Socket> {
    const { host, port, tls } = this.login;
    let socket: Socket;
    try {
      socket = await this.#guard.connect({ host, port });
    } catch (error) {
      if (error instanceof ConnectionRefused)
        throw new Refused('ACCESS_DENIED', `connecting to ${host} is refused: ${error.message}`, PRIVATE);
      if (error instanceof DestinationUnreachable) throw new Refused('UPSTREAM_FAILED', error.message);
      throw error;
    }
    if (tls === 'verify' || isPrivate(socket.remoteAddress)) return socket;
    socket.destroy();
    const message = `${host} has a public address, to which nothing is sent without encryption`;
    throw new Refused('ACCESS_DENIED', message, 'Ask the person to configure the connection with --tls verify.');
  }

  /** Ends all connections. */
  end(): void {
    this.#guard.close();
  }
}

const PRIVATE =
  'Ask the person to add the connection with --private if the server is on this machine or one of its networks.';

function isPrivate(address = ''): boolean {
  const number = parseAddress(address);
  return number !== undefined && reachOf(singleAddress(number)) !== 'public';
}
