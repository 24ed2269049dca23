/**
 * Controls what one command may connect to. Each destination is checked by name, resolved once, checked by address, and connected to at a
 * checked address. Counts connections and refusals.
 */
import { connect, type Socket } from 'node:net';
import type { Transform } from 'node:stream';
import type { Limits } from '../../base/limits.ts';
import type { Powers } from '../../base/powers.ts';
import { parseAddress } from '../../policy/address.ts';
import {
  type ConnectionRefusal,
  type Destination,
  type NetworkLayer,
  refusedAddress,
  refusedName,
  toHostName,
} from '../../policy/network.ts';
import type { DnsCache } from './dns-cache.ts';
import type { CommandDoor } from './door.ts';
import type { DoorAnswer, DoorQuestion } from './messages.ts';
import { connectThrough, goesDirect, type OutgoingProxy } from './outgoing-proxy.ts';
import type { EgressDenial, EgressReport } from './proxy-messages.ts';

/** The connection was refused and must not be retried. */
export class ConnectionRefused extends Error {}
/** The connection was allowed but could not be made. */
export class DestinationUnreachable extends Error {}

export interface ConnectionGuardOptions {
  readonly layers: readonly NetworkLayer[];
  /** For hosts that the layers don't list; absent if nobody is asked. */
  readonly door?: CommandDoor;
  /** Asks the gateway about a service; absent if none is reached. */
  ask?(question: DoorQuestion): Promise<DoorAnswer>;
  readonly limits: Limits;
  readonly powers: Powers;
  readonly names: Pick<DnsCache, 'lookup'>;
  /** The proxy of the network outside; absent where connections go out by themselves. */
  readonly outgoing?: OutgoingProxy | undefined;
}

/** Why a listed name got no answer. */
export const PAST_PROXY = 'a program looked the name up itself, and only the proxy of this command resolves names';

/** Most addresses tried for one name. */
const ADDRESSES_TRIED_MAX = 4;

export class ConnectionGuard {
  readonly #options: ConnectionGuardOptions;
  readonly #connected = new Map<string, number>();
  readonly #denied = new Map<string, { -readonly [K in keyof EgressDenial]: EgressDenial[K] }>();
  readonly #sockets = new Set<Socket>();
  readonly #sent = new Map<string, number>();
  /** The last question about a service: one at a time, since the gateway reads tables of the kernel for each. */
  #lastCheck: Promise<unknown> = Promise.resolve();
  #lookups = 0;
  /** Called, oldest first, when a lookup of this command ends. */
  readonly #lookupWaiters: (() => void)[] = [];
  #closed = false;

  constructor(options: ConnectionGuardOptions) {
    this.#options = options;
  }

  /** Connects to a destination, for which a person may be asked. Throws ConnectionRefused, DestinationUnreachable. */
  async connect(to: Destination, client?: Socket): Promise<Socket> {
    const { limits, powers } = this.#options;
    const target = showDestination(to);
    await this.#assertName(to, client);
    const { outgoing } = this.#options;
    if (outgoing && !goesDirect(outgoing, to)) return this.#remember(target, await this.#goThrough(outgoing, to));
    const addresses = await this.#addressesOf(to);
    const judged = addresses.map((address) => ({ address, refusal: this.#refusedAddress(to, address) }));
    const allowed = judged.filter((it) => !it.refusal).slice(0, ADDRESSES_TRIED_MAX);
    if (allowed.length === 0) throw this.#refuse(target, judged[0]?.refusal as ConnectionRefusal);
    let failure = 'it did not answer';
    const untilMs = powers.monotonicMs() + limits.egressConnectMs;
    for (const [index, { address }] of allowed.entries()) {
      const restMs = (untilMs - powers.monotonicMs()) / (allowed.length - index);
      if (this.#closed || restMs <= 0) break;
      try {
        return this.#remember(target, await this.#connectTo(address, to.port, restMs));
      } catch (error) {
        failure = (error as Error).message; // The next address may answer.
      }
    }
    throw new DestinationUnreachable(`${target}: ${failure}`);
  }

  /** Connects by the proxy of the network outside, which may know names that this machine doesn't. */
  async #goThrough(proxy: OutgoingProxy, to: Destination): Promise<Socket> {
    const target = showDestination(to);
    const known = await this.#addressesOf(to).catch(() => []);
    const refusals = known.map((it) => this.#refusedAddress(to, it));
    if (refusals.length > 0 && refusals.every(Boolean)) throw this.#refuse(target, refusals[0] as ConnectionRefusal);
    try {
      const [address = ''] = await this.#addressesOf(proxy);
      const socket = await this.#connectTo(address, proxy.port, this.#options.limits.egressConnectMs);
      return await connectThrough(socket, target, proxy);
    } catch (error) {
      throw new DestinationUnreachable(`${target}: ${(error as Error).message}, by ${showDestination(proxy)}`);
    }
  }

  /**
   * Connects to what listens at a port of the machine's own loopback. The gateway knows who listens: it is asked before, and once more
   * before any byte passes, since another program may have taken the port meanwhile. Throws ConnectionRefused, DestinationUnreachable.
   */
  async connectService(port: number): Promise<Socket> {
    const to = { host: '127.0.0.1', port };
    const address = await this.#serviceAddress(to);
    let socket: Socket;
    try {
      socket = await this.#connectTo(address, port, this.#options.limits.egressConnectMs);
    } catch (error) {
      throw new DestinationUnreachable(`${showDestination(to)}: ${(error as Error).message}`);
    }
    try {
      await this.#serviceAddress(to);
      return this.#remember(showDestination(to), socket);
    } catch (error) {
      socket.destroy();
      throw error;
    }
  }

  async #serviceAddress(to: Destination): Promise<string> {
    const asked = this.#lastCheck.then(() => this.#options.ask?.({ kind: 'service', ...to, sent: 0 }));
    this.#lastCheck = asked;
    const answer = await asked;
    const address = answer && 'open' in answer ? answer.open[0]?.block : undefined;
    if (address !== undefined) return address;
    const reason = answer && 'refused' in answer ? answer.refused : 'nobody knows what listens there';
    throw this.#refuse(showDestination(to), { layer: 'sandbox', reason });
  }

  /** What passes from a client to a host that a person opened; undefined for other hosts. */
  gate(to: Destination, upstream: Socket): Transform | undefined {
    const { door } = this.#options;
    if (!door?.isOpened(to)) return undefined;
    return door.gate(to, upstream, (reason) => this.#note(showDestination(to), { layer: 'policy', reason }));
  }

  /** Throws ConnectionRefused if the host is neither listed nor opened, after a person was asked who may be. */
  async #assertName(to: Destination, client: Socket | undefined): Promise<void> {
    const { door } = this.#options;
    const refusal = refusedName(this.#layers, to);
    if (!refusal) return;
    const asked = refusal.layer === 'policy' && door?.mayAsk(to) ? await door.open(to, client) : refusal.reason;
    const still = asked === undefined ? refusedName(this.#layers, to) : { ...refusal, reason: asked };
    if (still) throw this.#refuse(showDestination(to), still);
  }

  #refusedAddress(to: Destination, address: string): ConnectionRefusal | undefined {
    const { door } = this.#options;
    const refusal = refusedAddress(this.#layers, { ...to, address });
    const own = refusal || !door?.isOpened(to) ? undefined : door.refusedAddress(address);
    return own === undefined ? refusal : { layer: 'sandbox', reason: own };
  }

  get #layers(): readonly NetworkLayer[] {
    return this.#options.door?.layers ?? this.#options.layers;
  }

  /** Records a refusal by a bound rather than by a rule. */
  refuseOverLimit(reason: string): void {
    this.#note('connections', { layer: 'limit', reason });
  }

  /** Records a name that a program looked up itself, which got no answer. */
  noticeLookup(name: string): void {
    const host = toHostName(name) ?? name;
    const refusal = refusedName(this.#options.layers, { host, port: 443 });
    this.#note(host, refusal ?? { layer: 'sandbox', reason: PAST_PROXY });
  }

  /** Ends all connections and returns the report. */
  close(): EgressReport {
    this.#closed = true;
    // Each adds what it sent.
    for (const socket of this.#sockets) socket.destroy().emit('counted');
    const connected = [...this.#connected].map(([target, count]) => ({ target, count }));
    const sent = [...this.#sent].map(([host, bytes]) => ({ target: host, bytes }));
    return { connected, denied: [...this.#denied.values()], sent };
  }

  async #addressesOf({ host, port }: Destination): Promise<readonly string[]> {
    const { limits, powers } = this.#options;
    if (parseAddress(host) !== undefined) return [host];
    const late = Promise.withResolvers<never>();
    late.promise.catch(() => {}); // Avoids an unhandled rejection once the name is known.
    const timer = powers.after(limits.egressConnectMs, () => late.reject(new Error('no answer in time')));
    try {
      await this.#takeTurn(late.promise);
      const found = await Promise.race([this.#lookup(host), late.promise]);
      if (found.length > 0) return found;
    } catch (error) {
      if (error instanceof DestinationUnreachable)
        throw new DestinationUnreachable(`${host}:${port}: ${error.message}`);
      // ENOTFOUND, EAI_AGAIN or no answer: the same for the command.
    } finally {
      timer.cancel();
    }
    throw new DestinationUnreachable(`${host}: the name could not be looked up`);
  }

  /** Waits until this command may look up another name. Throws Unreachable if `late` rejects first. */
  async #takeTurn(late: Promise<never>): Promise<void> {
    const { egressLookupsMax: max } = this.#options.limits;
    if (this.#lookups < max) {
      this.#lookups += 1;
      return;
    }
    const turn = Promise.withResolvers<void>();
    this.#lookupWaiters.push(turn.resolve);
    try {
      await Promise.race([turn.promise, late]);
    } catch {
      const at = this.#lookupWaiters.indexOf(turn.resolve);
      if (at >= 0) this.#lookupWaiters.splice(at, 1);
      else this.#passTurn(); // The turn came just as the time ran out.
      this.refuseOverLimit(`waited too long behind ${max} lookups at once`);
      throw new DestinationUnreachable(`waited too long behind ${max} other lookups of this command`);
    }
  }

  /** Hands this lookup's turn to the connection that has waited longest. */
  #passTurn(): void {
    const next = this.#lookupWaiters.shift();
    if (next) next();
    else this.#lookups -= 1;
  }

  /**
   * Looks up a name. The turn ends with the lookup rather than with the caller's timeout: until then the lookup may occupy a thread of the
   * proxy.
   */
  #lookup(host: string): Promise<readonly string[]> {
    return this.#options.names.lookup(host).finally(() => this.#passTurn());
  }

  /** Connects to an IP address, so nothing is resolved again. */
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

  #remember(target: string, socket: Socket): Socket {
    if (this.#closed) {
      socket.destroy();
      throw new DestinationUnreachable(`${target}: its command is over`);
    }
    const known = this.#connected.has(target) || this.#connected.size < this.#options.limits.egressTargetsMax;
    const key = known ? target : OTHERS;
    this.#connected.set(key, (this.#connected.get(key) ?? 0) + 1);
    const count = () => {
      socket.removeAllListeners('counted').off('close', count);
      this.#sent.set(key, (this.#sent.get(key) ?? 0) + socket.bytesWritten);
    };
    socket.once('close', count).once('counted', count);
    return socket;
  }

  #refuse(target: string, refusal: ConnectionRefusal): ConnectionRefused {
    this.#note(target, refusal);
    return new ConnectionRefused(refusal.reason);
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

/** Stands for all targets beyond those that are listed individually. */
const OTHERS = 'others';

/** The destination as `host:port`, with IPv6 addresses in brackets. */
export const showDestination = ({ host, port }: Destination): string =>
  host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
