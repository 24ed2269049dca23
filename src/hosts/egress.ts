/**
 * Manages the egress proxy: one confined process that is started for the first command that may connect, ended when
 * no command needed it for a while, and restarted when it died. Its messages are checked against a schema and
 * otherwise not trusted.
 */
import type { ChildProcess } from 'node:child_process';
import type { Socket } from 'node:net';
import { ToolError } from '../base/errors.ts';
import type { Limits } from '../base/limits.ts';
import type { Powers, Timer } from '../base/powers.ts';
import type { NetworkLayer } from '../policy/network.ts';
import { EGRESS_LISTENERS_FD, HOST_FRAMES_FD } from '../sandbox/bubblewrap.ts';
import type {
  DoorAnswer,
  DoorQuestion,
  DoorTerms,
  EgressTerms,
  HttpRequest,
  RemoteKey,
  ToProxy,
} from '../sandbox/egress/messages.ts';
import type { OutgoingProxy } from '../sandbox/egress/outgoing-proxy.ts';
import type { EgressDenial, EgressReport, HttpAnswer } from '../sandbox/egress/proxy-messages.ts';
import { type Asked, fromProxy, type ProxyMessage } from '../sandbox/egress/proxy-messages.ts';
import type { Sandbox } from '../sandbox/sandbox.ts';
import { decode } from '../wire/protocol/codec.ts';
import { FrameReader, toFrame } from '../wire/protocol/frame.ts';
import { logEnd } from './host-process.ts';
import { unlessAborted } from './shutdown.ts';
import { StderrLog } from './stderr-log.ts';

/** The connection of execute hosts to one proxy process. Each process has its own. */
export interface EgressLine {
  readonly id: number;
  readonly stream: Socket;
}

/** One command's access to the proxy. */
export interface EgressLease {
  /** Identifies the command to the proxy. */
  readonly token: string;
  readonly line: EgressLine;
  /** Makes one HTTP request. Rejects with SANDBOX_UNAVAILABLE, or the reason of the signal given to `lend`. */
  fetch(asked: HttpRequest): Promise<HttpAnswer>;
}

/** The proxy of one command, which hears of the command at its first connection. The holder ends it, once. */
export interface EgressAttachment extends Pick<EgressLease, 'token' | 'line'> {
  /** Ends the command's connections; `lost` if the proxy died meanwhile. */
  close(): Promise<EgressReport | 'lost'>;
}

/** The door of a call: asks about hosts that no list names. */
export interface EgressDoor extends DoorTerms {
  /** Never rejects. */
  answer(question: DoorQuestion): Promise<DoorAnswer>;
  /** Called with what went out, when it is over. */
  sent(report: EgressReport): void;
}

/** Services of the machine that a command reaches at ports of its own loopback. */
export interface ServiceDoor {
  readonly ports: readonly number[];
  /** Whether what listens at the port now may be connected to, and at which address. Never rejects. */
  answer(question: DoorQuestion): Promise<DoorAnswer>;
}

/** The command of a policy that lists no host. */
export const NO_HOSTS: readonly NetworkLayer[] = [[]];

export interface EgressOptions {
  readonly sandbox: Pick<Sandbox, 'startEgress'>;
  /** Node and its arguments for the proxy's process. */
  readonly program: readonly string[];
  readonly limits: Limits;
  /** The proxy through which the network lets connections out. */
  readonly outgoing?: OutgoingProxy | undefined;
}

export class Egress implements AsyncDisposable {
  readonly #options: EgressOptions;
  readonly #powers: Powers;
  #process: EgressProcess | undefined;
  #nextId = 1;
  #leases = 0;
  #reap: Timer | undefined;
  #closed = false;

  constructor(options: EgressOptions, powers: Powers) {
    this.#options = options;
    this.#powers = powers;
  }

  /**
   * Lets a command connect to hosts that all layers allow while `run` runs, and adds the report of its connections.
   * Throws what `run` throws, SANDBOX_UNAVAILABLE, QUEUE_FULL, the signal's reason.
   */
  async lend<T extends object>(
    layers: readonly NetworkLayer[],
    signal: AbortSignal,
    run: (lease: EgressLease) => Promise<T>,
    door?: EgressDoor,
  ): Promise<T & { egress: EgressReport | 'lost' }> {
    const lease = await this.#lease(layers, signal, door);
    let egress: EgressReport | 'lost' = 'lost';
    let ran: T;
    try {
      ran = await run(lease);
    } finally {
      egress = await lease.close();
    }
    return { ...ran, egress };
  }

  /** The line of execute hosts to the proxy, which is started if needed. Throws SANDBOX_UNAVAILABLE, SHUTTING_DOWN. */
  get line(): EgressLine {
    this.#assertOpen();
    const { line } = this.#current();
    if (this.#leases === 0) this.#reapLater();
    return line;
  }

  /** Gives a command the proxy, at no cost until it connects to something. Throws SANDBOX_UNAVAILABLE, SHUTTING_DOWN. */
  attach(terms: Terms): EgressAttachment {
    this.#assertOpen();
    const proxy = this.#current();
    const token = this.#powers.secret();
    this.#leases += 1;
    this.#reap?.cancel();
    proxy.expect(token, terms);
    return { token, line: proxy.line, close: () => proxy.leave(token).finally(() => this.#release()) };
  }

  async #lease(
    layers: readonly NetworkLayer[],
    signal: AbortSignal,
    door: EgressDoor | undefined,
  ): Promise<EgressLease & Pick<EgressAttachment, 'close'>> {
    const { egressCommandsMax, egressAnswerMs } = this.#options.limits;
    this.#assertOpen();
    if (this.#leases >= egressCommandsMax)
      throw new ToolError(
        'QUEUE_FULL',
        `${egressCommandsMax} commands with network access are already running, which is the maximum`,
      );
    this.#leases += 1;
    this.#reap?.cancel();
    try {
      const proxy = this.#current();
      await proxy.ready;
      signal.throwIfAborted();
      const token = this.#powers.secret();
      await proxy.open(token, { layers, door });
      return {
        token,
        line: proxy.line,
        fetch: (asked) => unlessAborted(proxy.fetch(token, asked, asked.withinMs + egressAnswerMs), signal),
        close: () => proxy.close(token).finally(() => this.#release()),
      };
    } catch (error) {
      this.#release();
      throw error;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    this.#reap?.cancel();
    await this.#process?.end();
  }

  #assertOpen(): void {
    if (this.#closed) throw new ToolError('SHUTTING_DOWN', 'the daemon is shutting down');
  }

  #current(): EgressProcess {
    if (!this.#process?.alive) this.#process = new EgressProcess(this.#nextId++, this.#options, this.#powers);
    return this.#process;
  }

  #release(): void {
    this.#leases -= 1;
    if (this.#leases === 0 && !this.#closed) this.#reapLater();
  }

  #reapLater(): void {
    this.#reap?.cancel();
    this.#reap = this.#powers.after(this.#options.limits.hostIdleMs, () => void this.#process?.end());
  }
}

/** What a command may connect to. */
export interface Terms extends Pick<EgressTerms, 'layers'> {
  /** Asked when the command connects to something. */
  readonly keys?: (() => Promise<readonly RemoteKey[]>) | undefined;
  readonly door?: EgressDoor | undefined;
  readonly services?: ServiceDoor | undefined;
}

/** One proxy process, from its start to its end. */
class EgressProcess {
  /** Resolves when the proxy takes commands; rejects with SANDBOX_UNAVAILABLE if it never will. */
  readonly ready: Promise<void>;
  readonly line: EgressLine;
  readonly #options: EgressOptions;
  readonly #powers: Powers;
  readonly #child: ChildProcess;
  readonly #gone: Promise<void>;
  /** Maps a token to the request that waits for an answer; there is one at a time. */
  readonly #asked = new Map<string, { resolve: (answer: unknown) => void; reject: (error: Error) => void }>();
  /** What commands may connect to that the proxy has not heard of, by their tokens. */
  readonly #expected = new Map<string, Terms>();
  /** Doors of commands that the proxy knows. */
  readonly #doors = new Map<string, Pick<Terms, 'door' | 'services'>>();
  /** Tokens of those that connected to something, and of those that were too many. */
  readonly #arrived = new Set<string>();
  readonly #tooMany = new Set<string>();
  #alive = true;
  readonly #stderr: StderrLog;

  constructor(id: number, options: EgressOptions, powers: Powers) {
    this.#options = options;
    this.#powers = powers;
    const { limits, sandbox, program } = options;
    const [node = '', ...args] = program;
    const bounded = [node, `--max-old-space-size=${limits.egressHeapMb}`, ...args];
    this.#child = sandbox.startEgress(bounded, ['ignore', 'ignore', 'pipe', 'pipe', 'pipe']);
    // Execute hosts get this end. The only data that come back are Node's acknowledgements of passed descriptors.
    const stream = this.#child.stdio[EGRESS_LISTENERS_FD] as Socket;
    this.line = { id, stream: stream.on('error', () => {}).resume() };
    const logTarget = { log: powers.log, about: {}, message: 'egress proxy complains' };
    this.#stderr = new StderrLog(this.#child.stderr, logTarget, limits);
    logEnd(this.#child, powers.log, { child: 'egress proxy' });
    this.#gone = new Promise<void>((resolve) => {
      this.#child.once('exit', () => resolve());
      this.#child.once('error', () => resolve());
    }).then(() => {
      if (this.#alive) powers.log.warn({ pid: this.#child.pid }, 'egress proxy died');
      this.#end();
    });
    this.#frames
      .on('data', this.#receiver(limits))
      .on('error', () => this.#kill())
      .on('close', () => this.#kill());
    this.ready = this.#ask(READY, limits.hostStartMs, { setup: { limits, outgoing: options.outgoing } }).then(
      () => powers.log.info({ pid: this.#child.pid }, 'egress proxy ready'),
      () => {
        const { last } = this.#stderr;
        throw new ToolError('SANDBOX_UNAVAILABLE', `the egress proxy could not be started: ${last}`);
      },
    );
    this.ready.catch(() => {}); // Avoids an unhandled rejection when nobody awaits `ready`.
  }

  get alive(): boolean {
    return this.#alive;
  }

  /**
   * Sends a message about a token, and gives the answer. Throws SANDBOX_UNAVAILABLE if the proxy dies or takes too
   * long, which ends it.
   */
  ask(message: ToProxy, token: string): Promise<unknown> {
    return this.#ask(token, this.#options.limits.egressAnswerMs, message);
  }

  /** Makes an HTTP request; rejects if the proxy dies. The answer has a key of its own, since the token may be closed before it comes. */
  fetch(token: string, asked: HttpRequest, withinMs: number): Promise<HttpAnswer> {
    return this.#ask(toFetchKey(token), withinMs, { fetch: { token, asked } }) as Promise<HttpAnswer>;
  }

  /** Tells the proxy what a command may connect to as soon as the command connects. */
  expect(token: string, terms: Terms): void {
    this.#expected.set(token, terms);
  }

  /** Tells the proxy at once what a command may connect to. Throws SANDBOX_UNAVAILABLE. */
  async open(token: string, terms: Terms): Promise<void> {
    await this.ask({ open: await this.#toOpen(token, terms) }, token);
  }

  /** Ends what `expect` began; the proxy is asked only if it has heard of the command. */
  async leave(token: string): Promise<EgressReport | 'lost'> {
    const { layers } = this.#expected.get(token) ?? { layers: [] };
    this.#expected.delete(token);
    if (this.#arrived.delete(token)) return this.close(token);
    if (this.#tooMany.delete(token)) return { connected: [], denied: [this.#overLimit], sent: [] };
    return this.#alive || layers.every((it) => it.length === 0) ? { connected: [], denied: [], sent: [] } : 'lost';
  }

  /** Ends the connections of a command that the proxy knows. */
  async close(token: string): Promise<EgressReport | 'lost'> {
    const door = this.#doors.get(token)?.door;
    this.#doors.delete(token);
    try {
      const report = (await this.ask({ close: { token } }, token)) as EgressReport;
      door?.sent(report);
      return report;
    } catch {
      return 'lost'; // SANDBOX_UNAVAILABLE: the proxy died, and the log says so.
    }
  }

  get #overLimit(): EgressDenial {
    const reason = `${this.#options.limits.egressCommandsMax} commands are connected, which is the maximum`;
    return { target: 'connections', layer: 'limit', reason, count: 1 };
  }

  /** A command connected to something for the first time. One that has ended, or is unknown, gets nothing. */
  async #arrive(token: string): Promise<void> {
    const { egressCommandsMax, frameBytesMax } = this.#options.limits;
    const expected = this.#expected.get(token);
    const terms = this.#arrived.size < egressCommandsMax ? expected : undefined;
    if (terms) this.#arrived.add(token);
    else if (expected) this.#tooMany.add(token);
    const message = terms ? { open: await this.#toOpen(token, terms) } : { close: { token } };
    // The command may have ended while `keys` was awaited; the proxy must then not open its token again.
    if (this.#alive && (!terms || this.#arrived.has(token))) this.#frames.write(toFrame(message, frameBytesMax));
  }

  async #toOpen(token: string, terms: Terms): Promise<Extract<ToProxy, { open: unknown }>['open']> {
    const { layers, door, keys } = terms;
    this.#doors.set(token, terms);
    const own = { token, layers, keys: await keys?.() };
    return door ? { ...own, door: { asks: door.asks, uploadBytesMax: door.uploadBytesMax } } : own;
  }

  /** Something asks for what no list opens. */
  async #answer({ token, id, question }: Asked): Promise<void> {
    const { door, services } = this.#doors.get(token) ?? {};
    const asked = question.kind === 'service' ? services : door;
    const answer = (await asked?.answer(question)) ?? { refused: 'its command is over' };
    if (this.#alive) this.#frames.write(toFrame({ answer: { id, answer } }, this.#options.limits.frameBytesMax));
  }

  async end(): Promise<void> {
    // Wait until it is up: a bwrap that is killed while it builds its sandbox leaves an init behind.
    await this.ready.catch(() => {}); // It is gone already.
    this.#kill();
    await this.#gone;
  }

  get #frames(): Socket {
    return this.#child.stdio[HOST_FRAMES_FD] as Socket;
  }

  async #ask(key: string, withinMs: number, message: ToProxy): Promise<unknown> {
    if (!this.#alive) throw gone();
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    this.#asked.set(key, { resolve, reject });
    const timer = this.#powers.after(withinMs, () => this.#kill());
    this.#frames.write(toFrame(message, this.#options.limits.frameBytesMax));
    return promise.finally(() => {
      timer.cancel();
      this.#asked.delete(key);
    });
  }

  #receiver(limits: Limits): (chunk: Buffer) => void {
    const reader = new FrameReader(limits.frameBytesMax);
    return (chunk) => {
      try {
        for (const payload of reader.push(chunk)) this.#take(fromProxy.parse(decode(payload, limits)));
      } catch (error) {
        this.#powers.log.error({ error }, 'the egress proxy sent an invalid message; ending it');
        this.#kill();
      }
    };
  }

  #take(message: ProxyMessage): void {
    if ('ready' in message) this.#asked.get(READY)?.resolve(undefined);
    else if ('asked' in message) void this.#answer(message.asked);
    else if ('arrived' in message) void this.#arrive(message.arrived);
    else if ('opened' in message) this.#asked.get(message.opened)?.resolve(undefined);
    else if ('fetched' in message) this.#asked.get(toFetchKey(message.fetched.token))?.resolve(message.fetched.answer);
    else this.#asked.get(message.closed.token)?.resolve(message.closed.report);
  }

  #kill(): void {
    this.#child.kill('SIGKILL');
    this.#end();
  }

  #end(): void {
    if (!this.#alive) return;
    this.#alive = false;
    this.#frames.destroy();
    this.line.stream.destroy();
    for (const { reject } of [...this.#asked.values()]) reject(gone());
  }
}

/** Never equals a token: tokens are hexadecimal. */
const READY = 'ready';
const toFetchKey = (token: string): string => `fetch ${token}`;

const gone = (): ToolError => new ToolError('SANDBOX_UNAVAILABLE', 'the egress proxy ended while the command ran');
