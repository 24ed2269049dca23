/**
 * The egress proxy: connections of commands, each known by the listener that it came from. One port takes HTTP and SOCKS5.
 * It reads what hostile programs send, and so runs in a process of its own (workers/egress.ts).
 */
import type { Server as HttpServer } from 'node:http';
import { Server, type Socket } from 'node:net';
import type { Limits } from '../limits.ts';
import type { NetworkLayer } from '../policy/network.ts';
import type { Powers } from '../powers.ts';
import { fetchOnce } from './fetch.ts';
import { Guard } from './guard.ts';
import { type Client, createHttp } from './http.ts';
import type { EgressReport, HttpAnswer, HttpAsked } from './messages.ts';
import { Names, type Resolve, type TtlOf } from './names.ts';
import { SOCKS_VERSION, serveSocks } from './socks.ts';

export interface ProxyOptions {
  readonly limits: Limits;
  readonly powers: Powers;
  readonly resolve: Resolve;
  readonly ttlOf: TtlOf;
}

interface Command {
  readonly guard: Guard;
  readonly sockets: Set<Socket>;
  listener?: Server;
}

export class EgressProxy {
  readonly #options: ProxyOptions;
  readonly #commands = new Map<string, Command>();
  readonly #clients = new WeakMap<Socket, Client>();
  readonly #http: HttpServer;
  readonly #names: Names;
  #connections = 0;

  constructor(options: ProxyOptions) {
    this.#options = options;
    this.#names = new Names(options);
    this.#http = createHttp((socket) => this.#clients.get(socket), options.limits);
  }

  /** From now on the token is a command's. */
  open(token: string, layers: readonly NetworkLayer[]): void {
    this.#commands.set(token, {
      guard: new Guard({ ...this.#options, layers, names: this.#names }),
      sockets: new Set(),
    });
  }

  /** Takes connections at a listening socket, or anything else that `net` can listen at; false for a token of nobody. */
  listen(token: string, at: object): boolean {
    const command = this.#commands.get(token);
    if (!command || command.listener) return false;
    const { egressCommandConnectionsMax: max } = this.#options.limits;
    const listener = new Server({ allowHalfOpen: true, noDelay: true }, (socket) => this.#accept(command, socket));
    listener.maxConnections = max;
    listener.on('drop', () => command.guard.refuseOverLimit(`more than ${max} connections at once`));
    // EINVAL and the like: what came is no listening socket, and nobody is served at it.
    listener.on('error', () => listener.close());
    listener.listen(at);
    command.listener = listener;
    return true;
  }

  /** Makes one request as the command; undefined for a token of nobody. */
  async fetch(token: string, asked: HttpAsked): Promise<HttpAnswer | undefined> {
    const command = this.#commands.get(token);
    return command && fetchOnce(asked, command.guard, this.#options.limits);
  }

  /** Ends the command's connections and tells what it did. */
  close(token: string): EgressReport {
    const command = this.#commands.get(token);
    if (!command) return { listened: false, connected: [], denied: [] };
    this.#commands.delete(token);
    command.listener?.close();
    for (const socket of command.sockets) socket.destroy();
    this.#connections -= command.sockets.size;
    command.sockets.clear();
    return command.guard.close(command.listener !== undefined);
  }

  #accept(command: Command, socket: Socket): void {
    const { limits, powers } = this.#options;
    const { guard, sockets } = command;
    socket.on('error', () => {}); // ECONNRESET: 'close' follows.
    if (this.#connections >= limits.egressConnectionsMax && !this.#makeRoom(command)) return void socket.destroy();
    this.#connections += 1;
    sockets.add(socket);
    const late = powers.after(limits.egressHeaderMs, () => socket.destroy());
    const onParsed = () => late.cancel();
    socket.once('close', () => {
      late.cancel();
      if (sockets.delete(socket)) this.#connections -= 1;
    });
    socket.once('readable', () => {
      const first = socket.read(1) as Buffer | null;
      if (first === null) return void socket.destroy();
      socket.unshift(first);
      if (first[0] === SOCKS_VERSION)
        // Rejects where it ends in the middle.
        return void serveSocks(socket, guard, onParsed).catch(() => socket.destroy());
      this.#clients.set(socket, { guard, onParsed });
      this.#http.emit('connection', socket);
    });
  }

  /** Ends the newest connection of the command that has most, unless that is the one that wants another. */
  #makeRoom(wanting: Command): boolean {
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
