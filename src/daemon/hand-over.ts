/**
 * One daemon hands over to another: the old one starts the new one with its listening sockets and a channel between
 * both. The new one gets everything ready but the state and says so; the old one lets its calls end, closes the state
 * and gives the turn; the new one opens the state and serves. docs/decisions/0022-upgrade.md
 */
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { type Server, Socket } from 'node:net';
import { createInterface } from 'node:readline';
import type { Duplex } from 'node:stream';
import * as z from 'zod';
import type { Limits } from '../base/limits.ts';
import { type Powers, settlesWithin } from '../base/powers.ts';
import { parseJson } from '../base/text/json.ts';
import type { SocketName } from '../wire/transport/inherited-sockets.ts';

/** Descriptor of the channel in the new daemon; the sockets follow it. */
export const CHANNEL_FD = 3;

/** Messages between the two daemons, each one line of JSON. */
const notice = z.discriminatedUnion('is', [
  z.object({ is: z.literal('prepared'), version: z.string() }),
  z.object({ is: z.literal('ready') }),
  z.object({ is: z.literal('error'), message: z.string() }),
  z.object({ is: z.literal('turn') }),
  z.object({ is: z.literal('stop') }),
]);
type Notice = z.output<typeof notice>;

/** The messages of the other daemon, in order; ends when that daemon ends. */
class Notices {
  readonly #stream: Duplex;
  readonly #lines: AsyncIterator<string>;

  constructor(stream: Duplex) {
    this.#stream = stream;
    // A write fails when the other daemon has ended; `next` reports that.
    stream.on('error', () => {});
    this.#lines = createInterface({ input: stream })[Symbol.asyncIterator]();
  }

  tell(it: Notice): void {
    if (this.#stream.writable) this.#stream.write(`${JSON.stringify(it)}\n`);
  }

  /** The next message; undefined when the other daemon has ended. */
  async next(): Promise<Notice | undefined> {
    const { value, done } = await this.#lines.next().catch(() => ({ value: undefined, done: true }));
    if (done) return undefined;
    return notice.safeParse(parseJson(value as string)).data;
  }

  /** Closes the channel after the messages sent so far are written. */
  close(): void {
    this.#stream.end(() => this.#stream.destroy());
  }
}

export interface Launch {
  readonly program: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  /** The listening sockets, and the names of those that a service manager keeps. */
  readonly servers: ReadonlyMap<SocketName, Server>;
  readonly kept: readonly SocketName[];
}

interface Parts {
  readonly limits: Limits;
  readonly powers: Powers;
}

/** Explains to the person who asked for an upgrade why the new daemon did not start. */
export class SuccessorError extends Error {}

/** The new daemon, as the old one sees it. */
export class Successor {
  readonly pid: number;
  readonly version: string;
  readonly #child: ChildProcess;
  readonly #notices: Notices;
  readonly #parts: Parts;

  private constructor(child: ChildProcess, version: string, notices: Notices, parts: Parts) {
    this.pid = child.pid as number;
    this.version = version;
    this.#child = child;
    this.#notices = notices;
    this.#parts = parts;
  }

  /** Starts the new daemon; resolves when it lacks only the state directory. Throws SuccessorError after ending it. */
  static async start({ program, args, env, cwd, servers, kept }: Launch, parts: Parts): Promise<Successor> {
    const flags = [...servers.keys()].flatMap((it) => ['--take-over', it]);
    const keeping = kept.flatMap((it) => ['--keep-socket', it]);
    const child = parts.powers.spawn(program, [...args, ...flags, ...keeping], {
      stdio: ['ignore', 'inherit', 'inherit', 'pipe', ...[...servers.values()].map(fdOf)],
      env,
      cwd,
      detached: true,
    });
    const failed = once(child, 'error').then(([error]) => ({ is: 'error', message: String(error) }) as const);
    const notices = new Notices(child.stdio[CHANNEL_FD] as Duplex);
    const answer = await withinTime(Promise.race([notices.next(), failed]), parts);
    if (answer?.is === 'prepared') return new Successor(child, answer.version, notices, parts);
    await end(child, notices, parts);
    throw new SuccessorError(problemOf(answer));
  }

  /** Lets the new daemon open the state; resolves when it serves. Throws SuccessorError after ending it. */
  async giveTurn(): Promise<void> {
    this.#notices.tell({ is: 'turn' });
    const answer = await withinTime(this.#notices.next(), this.#parts);
    if (answer?.is !== 'ready') {
      await end(this.#child, this.#notices, this.#parts);
      throw new SuccessorError(problemOf(answer));
    }
    this.#notices.close();
    this.#child.unref();
  }

  /** Ends the new daemon before it has opened the state. */
  async stop(): Promise<void> {
    this.#notices.tell({ is: 'stop' });
    await end(this.#child, this.#notices, this.#parts);
  }
}

/** The descriptor of a listening server, for which Node has no API. Throws SuccessorError if it does not listen. */
function fdOf(server: Server): number {
  const fd = (server as { _handle?: { fd?: number } | null })._handle?.fd;
  if (fd === undefined || fd < 0) throw new SuccessorError('a socket of this daemon does not listen any more');
  return fd;
}

const HANGS = { is: 'error', message: 'it did not get ready in time' } as const;

async function withinTime(answer: Promise<Notice | undefined>, { limits, powers }: Parts): Promise<Notice | undefined> {
  return (await settlesWithin(answer, limits.upgradeStartMs, powers)) ? await answer : HANGS;
}

const problemOf = (answer: Notice | undefined): string =>
  answer?.is === 'error' ? answer.message : 'it ended at once; the log of the daemon has its last words';

/** Waits for a process that is ending, and kills it if it takes too long. */
async function end(child: ChildProcess, notices: Notices, { limits, powers }: Parts): Promise<void> {
  if (child.pid !== undefined && child.exitCode === null && child.signalCode === null) {
    const exited = once(child, 'exit');
    if (!(await settlesWithin(exited, limits.shutdownGraceMs, powers))) child.kill('SIGKILL');
    await exited;
  }
  notices.close();
}

/** The old daemon, as the new one sees it. */
export class Predecessor {
  readonly #notices = new Notices(new Socket({ fd: CHANNEL_FD, readable: true, writable: true }));

  /** Reports that all but the state is ready; resolves when the old daemon has closed it. Throws SuccessorError if it does not. */
  async turn(version: string): Promise<void> {
    this.#notices.tell({ is: 'prepared', version });
    const answer = await this.#notices.next();
    // A killed daemon holds the state no more, either.
    if (answer === undefined || answer.is === 'turn') return;
    throw new SuccessorError('the old daemon does not hand over');
  }

  /** Reports that the new daemon serves, or why not; the last message. */
  tell(last: object): void {
    this.#notices.tell('error' in last ? { is: 'error', message: String(last.error) } : { is: 'ready' });
    this.#notices.close();
  }
}
