/**
 * What one command may connect to: each destination is judged by its name, looked up once, judged by its addresses, and
 * connected to at an address that was judged. Counts what was made and what was refused.
 */
import { connect, type Socket } from 'node:net';
import type { Limits } from '../limits.ts';
import { parseAddress } from '../policy/address.ts';
import { type Destination, type NetworkLayer, type Refusal, refusedAddress, refusedName } from '../policy/network.ts';
import type { Powers } from '../powers.ts';
import type { EgressDenial, EgressReport } from './messages.ts';

/** The addresses of a name, in the order in which they are to be tried. Rejects where it has none. */
export type Resolve = (name: string) => Promise<readonly string[]>;

/** A connection that was refused, and is not to be tried again. */
export class Refused extends Error {}
/** A connection that was allowed and could not be made. */
export class Unreachable extends Error {}

export interface GuardOptions {
  readonly layers: readonly NetworkLayer[];
  readonly limits: Limits;
  readonly powers: Powers;
  readonly resolve: Resolve;
}

/** Addresses of one name that are tried. */
const ADDRESSES_TRIED_MAX = 4;

export class Guard {
  readonly #options: GuardOptions;
  readonly #connected = new Map<string, number>();
  readonly #denied = new Map<string, { -readonly [K in keyof EgressDenial]: EgressDenial[K] }>();
  readonly #sockets = new Set<Socket>();
  #lookups = 0;
  #closed = false;

  constructor(options: GuardOptions) {
    this.#options = options;
  }

  /** A connection to it. Throws Refused, Unreachable. */
  async connect(to: Destination): Promise<Socket> {
    const { layers, limits, powers } = this.#options;
    const target = showDestination(to);
    const refusal = refusedName(layers, to);
    if (refusal) throw this.#refuse(target, refusal);
    const addresses = await this.#addressesOf(to);
    const judged = addresses.map((address) => ({ address, refusal: refusedAddress(layers, { ...to, address }) }));
    const allowed = judged.filter((it) => !it.refusal).slice(0, ADDRESSES_TRIED_MAX);
    if (allowed.length === 0) throw this.#refuse(target, judged[0]?.refusal as Refusal);
    let failure = 'it did not answer';
    const untilMs = powers.monotonicMs() + limits.egressConnectMs;
    for (const [index, { address }] of allowed.entries()) {
      const restMs = (untilMs - powers.monotonicMs()) / (allowed.length - index);
      if (this.#closed || restMs <= 0) break;
      try {
        return this.#keep(target, await this.#connectTo(address, to.port, restMs));
      } catch (error) {
        failure = (error as Error).message; // The next address may answer.
      }
    }
    throw new Unreachable(`${target}: ${failure}`);
  }

  /** Notes what no rule refused, but a bound. */
  refuseOverLimit(reason: string): void {
    this.#note('connections', { layer: 'limit', reason });
  }

  /** Ends all connections and tells what there was. */
  close(listened: boolean): EgressReport {
    this.#closed = true;
    for (const socket of this.#sockets) socket.destroy();
    const connected = [...this.#connected].map(([target, count]) => ({ target, count }));
    return { listened, connected, denied: [...this.#denied.values()] };
  }

  async #addressesOf({ host, port }: Destination): Promise<readonly string[]> {
    const { limits, resolve, powers } = this.#options;
    if (parseAddress(host) !== undefined) return [host];
    if (this.#lookups >= limits.egressLookupsMax) {
      this.refuseOverLimit(`more than ${limits.egressLookupsMax} lookups at once`);
      throw new Unreachable(`${host}:${port}: too many names are looked up at once`);
    }
    this.#lookups += 1;
    const late = Promise.withResolvers<never>();
    const timer = powers.after(limits.egressConnectMs, () => late.reject(new Error('no answer in time')));
    try {
      const found = await Promise.race([resolve(host).finally(() => (this.#lookups -= 1)), late.promise]);
      if (found.length > 0) return found;
    } catch {
      // ENOTFOUND, EAI_AGAIN, no answer: to the command the same.
    } finally {
      timer.cancel();
    }
    throw new Unreachable(`${host}: the name could not be looked up`);
  }

  /** By number: nothing is looked up again. */
  #connectTo(address: string, port: number, withinMs: number): Promise<Socket> {
    const { limits, powers } = this.#options;
    const options = { host: address, port, allowHalfOpen: true, noDelay: true, timeout: limits.egressIdleMs };
    const socket = connect({ ...options, autoSelectFamily: false });
    this.#sockets.add(socket);
    socket.once('close', () => this.#sockets.delete(socket));
    socket.on('timeout', () => socket.destroy());
    const timer = powers.after(withinMs, () => socket.destroy(new Error('no answer in time')));
    return new Promise((resolve, reject) => {
      socket.on('error', (error) => reject(new Error((error as NodeJS.ErrnoException).code ?? error.message)));
      socket.once('connect', () => resolve(socket));
    }).finally(() => timer.cancel()) as Promise<Socket>;
  }

  #keep(target: string, socket: Socket): Socket {
    if (this.#closed) {
      socket.destroy();
      throw new Unreachable(`${target}: its command is over`);
    }
    const known = this.#connected.has(target) || this.#connected.size < this.#options.limits.egressTargetsMax;
    const key = known ? target : OTHERS;
    this.#connected.set(key, (this.#connected.get(key) ?? 0) + 1);
    return socket;
  }

  #refuse(target: string, refusal: Refusal): Refused {
    this.#note(target, refusal);
    return new Refused(refusal.reason);
  }

  #note(target: string, { layer, reason }: Pick<EgressDenial, 'layer' | 'reason'>): void {
    const key = `${target} ${reason}`;
    const known = this.#denied.get(key);
    if (known) known.count += 1;
    else if (this.#denied.size < this.#options.limits.egressTargetsMax)
      this.#denied.set(key, { target, layer, reason, count: 1 });
    else if (this.#denied.has(OTHERS)) (this.#denied.get(OTHERS) as { count: number }).count += 1;
    else this.#denied.set(OTHERS, { target: OTHERS, layer: 'limit', reason: 'more than are listed', count: 1 });
  }
}

/** What stands for all targets beyond those that are told one by one. */
const OTHERS = 'others';

/** `host:port`, IPv6 in brackets. */
export const showDestination = ({ host, port }: Destination): string =>
  host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
