/**
 * The egress proxy: accepts connections of commands, identified by the listener that they arrive at. One port serves HTTP and SOCKS5. It
 * parses input of hostile programs and therefore runs in its own process (workers/egress.ts).
 */
import type { Server as HttpServer } from 'node:http';
import { Server, type Socket } from 'node:net';
import type { Limits } from '../../base/limits.ts';
import type { Powers } from '../../base/powers.ts';
import { ConnectionGuard, type ConnectionGuardOptions } from './connection-guard.ts';
import { withCredentials, withoutCredentials } from './credentials.ts';
import { DnsCache, type Resolve, type TtlOf } from './dns-cache.ts';
import { CommandDoor } from './door.ts';
import { fetchOnce } from './fetch.ts';
import { createHttp, type ProxyClient } from './http.ts';
import type { DoorAnswer, DoorQuestion, EgressTerms, HttpRequest, RemoteKey } from './messages.ts';
import { ProgramPipes } from './program-pipes.ts';
import type { EgressReport, HttpAnswer } from './proxy-messages.ts';
import { relay } from './relay.ts';
import { SOCKS_VERSION, serveSocks } from './socks.ts';

export interface ProxyOptions extends Pick<ConnectionGuardOptions, 'outgoing'> {
  readonly limits: Limits;
  readonly powers: Powers;
  readonly resolve: Resolve;
  readonly ttlOf: TtlOf;
  /** Asks the gateway about something that no list opens. */
  ask(token: string, question: DoorQuestion): Promise<DoorAnswer>;
}

interface ProxiedCommand {
  readonly guard: ConnectionGuard;
  readonly keys: readonly RemoteKey[];
  readonly pipeTo: ProxyClient['pipeTo'];
  readonly sockets: Set<Socket>;
  /** One for each sandbox of the call. */
  readonly listeners: Server[];
}

/** What came with a token that is not open yet. */
interface Early {
  readonly handles: { readonly at: Closable; readonly service: number | undefined }[];
  readonly names: string[];
}

type Closable = object & { close?(): void };

/** Sandboxes of one call with their services, and names that one asks for, for which the proxy keeps anything. */
const EARLY_MAX = 64;

export class EgressProxy {
  readonly #options: ProxyOptions;
  readonly #commands = new Map<string, ProxiedCommand>();
  readonly #early = new Map<string, Early>();
  readonly #clients = new WeakMap<Socket, ProxyClient>();
  readonly #http: HttpServer;
  readonly #names: DnsCache;
  readonly #pipes: ProgramPipes;
  #connections = 0;

  constructor(options: ProxyOptions) {
    this.#options = options;
    this.#names = new DnsCache(options);
    this.#pipes = new ProgramPipes((token, question) => options.ask(token, question));
    this.#http = createHttp((socket) => this.#clients.get(socket), options.limits);
  }

  /** Registers a command's token, and serves what came with it before. */
  open(token: string, { layers, door, keys }: EgressTerms): void {
    const ask = (question: DoorQuestion) => this.#options.ask(token, question);
    const ofDoor = door && { door: new CommandDoor({ ...door, layers, ask }) };
    this.#commands.set(token, {
      guard: new ConnectionGuard({ ...this.#options, layers, ...ofDoor, ask, names: this.#names }),
      keys: keys ?? [],
      pipeTo: (to) => this.#pipes.open(token, to),
      sockets: new Set(),
      listeners: [],
    });
    const { handles, names } = this.#takeEarly(token);
    for (const { at, service } of handles) this.listen(token, at, service);
    for (const it of names) this.notice(token, it);
  }

  /**
   * Accepts connections at a listening socket, or at anything else that `net` can listen on; false for a token of which nothing was
   * known: its socket waits until the token is opened or closed. `service` is the port of the machine that the socket stands for.
   */
  listen(token: string, at: Closable, service?: number): boolean {
    const command = this.#commands.get(token);
    if (!command)
      return this.#keep(token, ({ handles }) =>
        handles.length < EARLY_MAX ? handles.push({ at, service }) : at.close?.(),
      );
    if (command.listeners.length >= EARLY_MAX) at.close?.();
    else command.listeners.push(this.#serve(command, at, service));
    return true;
  }

  /** A command asked for a name past the proxy; false as in `listen`. */
  notice(token: string, name: string): boolean {
    const command = this.#commands.get(token);
    if (!command) return this.#keep(token, ({ names }) => names.length < EARLY_MAX && names.push(name));
    command.guard.noticeLookup(name);
    return true;
  }

  #serve(command: ProxiedCommand, at: object, service: number | undefined): Server {
    const { egressCommandConnectionsMax: max } = this.#options.limits;
    const listener = new Server({ allowHalfOpen: true, noDelay: true }, (socket) =>
      this.#accept(command, socket, service),
    );
    listener.maxConnections = max;
    listener.on('drop', () => command.guard.refuseOverLimit(`more than ${max} connections at once`));
    // EINVAL and similar: the descriptor is no listening socket, so nothing is served.
    listener.on('error', () => listener.close());
    return listener.listen(at);
  }

  /** Keeps something for a token that is not open; whether the token was known. */
  #keep(token: string, add: (early: Early) => unknown): boolean {
    const known = this.#early.get(token);
    const early = known ?? { handles: [], names: [] };
    add(early);
    if (known) return true;
    const [oldest] = this.#early.keys();
    if (this.#early.size >= this.#options.limits.egressCommandsMax && oldest !== undefined) this.#drop(oldest);
    this.#early.set(token, early);
    return false;
  }

  #takeEarly(token: string): Early {
    const early = this.#early.get(token);
    this.#early.delete(token);
    return early ?? { handles: [], names: [] };
  }

  #drop(token: string): void {
    for (const { at } of this.#takeEarly(token).handles) at.close?.();
  }

  /** Makes one request on behalf of the command; undefined for an unknown token. */
  async fetch(token: string, asked: HttpRequest): Promise<HttpAnswer | undefined> {
    const command = this.#commands.get(token);
    if (!command) return undefined;
    const answer = await fetchOnce(withCredentials(asked), command.guard, this.#options);
    return withoutCredentials(answer, asked.credentials);
  }

  /** Ends the command's connections and returns its report. */
  close(token: string): EgressReport {
    const command = this.#commands.get(token);
    this.#drop(token);
    this.#pipes.close(token);
    if (!command) return { connected: [], denied: [], sent: [] };
    this.#commands.delete(token);
    for (const it of command.listeners) it.close();
    for (const socket of command.sockets) socket.destroy();
    this.#connections -= command.sockets.size;
    command.sockets.clear();
    return command.guard.close();
  }

  #accept(command: ProxiedCommand, socket: Socket, service: number | undefined): void {
    const { limits, powers } = this.#options;
    const { guard, keys, pipeTo, sockets } = command;
    socket.on('error', () => {}); // ECONNRESET: 'close' follows.
    if (this.#connections >= limits.egressConnectionsMax && !this.#makeRoom(command)) return void socket.destroy();
    this.#connections += 1;
    sockets.add(socket);
    socket.once('close', () => {
      if (sockets.delete(socket)) this.#connections -= 1;
    });
    if (service !== undefined) {
      // Refused, or nothing listens any more: a client sees the connection end.
      guard.connectService(service).then(
        (upstream) => (socket.destroyed ? void upstream.destroy() : relay(socket, upstream)),
        () => socket.destroy(),
      );
      return;
    }
    const late = powers.after(limits.egressHeaderMs, () => socket.destroy());
    const onParsed = () => late.cancel();
    socket.once('close', onParsed);
    socket.once('readable', () => {
      const first = socket.read(1) as Buffer | null;
      if (first === null) return void socket.destroy();
      socket.unshift(first);
      if (first[0] === SOCKS_VERSION)
        // Rejects if the connection ends in the middle of the request.
        return void serveSocks(socket, guard, onParsed).catch(() => socket.destroy());
      this.#clients.set(socket, { guard, keys, pipeTo, onParsed });
      this.#http.emit('connection', socket);
    });
  }

  /**
   * Closes the newest connection of the command with the most, unless that is the command that wants another; returns whether there is
   * room.
   */
  #makeRoom(wanting: ProxiedCommand): boolean {
    const all = [...this.#commands.values()];
    const most = all.reduce((a, b) => (b.sockets.size > a.sockets.size ? b : a), wanting);
    const loser = most.sockets.size > wanting.sockets.size + 1 ? most : wanting;
    loser.guard.refuseOverLimit(`more than ${this.#options.limits.egressConnectionsMax} connections of all commands`);
    if (loser === wanting) return false;
    const newest = [...loser.sockets].at(-1) as Socket;
    loser.sockets.delete(newest);
    this.#connections -= 1;
    newest.destroy();
    return true;
  }
}
