/** The confined process that is logged in to one database server. Its messages are checked, and otherwise not trusted. */
import type { ChildProcess } from 'node:child_process';
import type { Socket } from 'node:net';
import * as z from 'zod';
import { CODES, type Code, ToolError } from '../../base/errors.ts';
import type { Limits } from '../../base/limits.ts';
import { onAbort, type Powers } from '../../base/powers.ts';
import { logEnd } from '../../hosts/host-process.ts';
import { StderrLog } from '../../hosts/stderr-log.ts';
import { EGRESS_LISTENERS_FD, HOST_FRAMES_FD } from '../../sandbox/bubblewrap.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import type { AskedOfServer, ServerAnswer, ServerCell } from '../../tools/context/databases.ts';
import { decode } from '../../wire/protocol/codec.ts';
import { FrameReader, toFrame } from '../../wire/protocol/frame.ts';
import type { ServerLogin, ToServerProcess } from './messages.ts';

/** Time and end of a statement, and the session whose it is. */
export interface StatementBounds {
  readonly withinMs: number;
  readonly session: string;
  readonly signal: AbortSignal;
}

export interface ServerProcessOptions {
  readonly sandbox: Pick<Sandbox, 'startEgress'>;
  /** Node and its arguments for the process. */
  readonly program: readonly string[];
  readonly login: ServerLogin;
  readonly limits: Limits;
  readonly powers: Powers;
}

/**
 * V8 sizes the heap of young objects by the whole heap, which is small here. Without this flag, collecting the garbage of
 * 10 000 rows takes five times as long as reading them.
 */
const YOUNG_HEAP = '--max-semi-space-size=8';

const text = z.string().max(4096);
const isCell = (it: unknown): boolean => it === null || ['string', 'number', 'boolean'].includes(typeof it);
/** Checked without the schema library, which takes longer for 10 000 rows than the query. */
const isRows = (it: unknown): boolean =>
  Array.isArray(it) && it.every((row: unknown) => Array.isArray(row) && row.every(isCell));
const answer = z.strictObject({
  columns: z.array(z.strictObject({ name: z.string(), type: text })),
  rows: z.custom<ServerCell[][]>(isRows),
  truncatedBy: z.enum(['rows', 'bytes', 'cells']).optional(),
  changes: z.int().nonnegative().optional(),
  cost: z.number().optional(),
  notices: z.array(text).max(100).readonly().optional(),
  indexes: z
    .array(z.strictObject({ table: text, name: text, unique: z.boolean(), columns: z.array(text.nullable()) }))
    .optional(),
});
const id = z.int();
const fromProcess = z.union([
  z.strictObject({ ready: z.literal(true) }),
  z.strictObject({ answered: z.strictObject({ id, answer }) }),
  z.strictObject({
    refused: z.strictObject({
      id,
      refusal: z.strictObject({
        code: z.enum(Object.keys(CODES) as [Code, ...Code[]]),
        message: text,
        suggestion: text.optional(),
      }),
    }),
  }),
]);
export type FromServerProcess = z.output<typeof fromProcess>;
type Answer = z.output<typeof answer>;

export class ServerProcess {
  readonly #options: ServerProcessOptions;
  readonly #child: ChildProcess;
  readonly #stderr: StderrLog;
  readonly #ready = Promise.withResolvers<void>();
  readonly #lost = Promise.withResolvers<void>();
  readonly #gone: Promise<void>;
  readonly #calls = new Map<number, PromiseWithResolvers<Answer>>();
  /** Calls that the process has not answered; those that were cancelled among them. */
  readonly #unanswered = new Set<number>();
  #nextId = 1;
  #isAlive = true;

  constructor(options: ServerProcessOptions) {
    this.#options = options;
    const { sandbox, program, limits, login, powers } = options;
    const [node = '', ...args] = program;
    const bounded = [node, `--max-old-space-size=${limits.databaseHeapMb}`, YOUNG_HEAP, ...args];
    // The fifth would bring listeners of commands to an egress proxy; nothing is sent on it.
    this.#child = sandbox.startEgress(bounded, ['ignore', 'ignore', 'pipe', 'pipe', 'pipe']);
    (this.#child.stdio[EGRESS_LISTENERS_FD] as Socket).on('error', () => {}).resume();
    const logTarget = { log: powers.log, about: { host: login.host }, message: 'database process complains' };
    this.#stderr = new StderrLog(this.#child.stderr, logTarget, limits);
    logEnd(this.#child, powers.log, { child: 'database process', host: login.host });
    this.#gone = new Promise<void>((resolve) => {
      this.#child.once('exit', () => resolve());
      this.#child.once('error', () => resolve());
    }).then(() => this.#end());
    const reader = new FrameReader(limits.frameBytesMax);
    this.#frames
      .on('data', (chunk: Buffer) => this.#receive(reader, chunk))
      .on('error', () => this.#kill())
      .on('close', () => this.#kill());
    const late = powers.after(limits.hostStartMs, () => this.#kill());
    this.#ready.promise.then(late.cancel, late.cancel);
    this.#send({ setup: { limits, login } });
  }

  /** Resolves when the process takes no more calls: it ended, or is about to. */
  get lost(): Promise<void> {
    return this.#lost.promise;
  }

  /** Throws ToolError, and the signal's reason, when the server has been told to end the statement. */
  async ask(asked: AskedOfServer, { signal, ...by }: StatementBounds): Promise<Omit<ServerAnswer, 'durationMs'>> {
    await this.#ready.promise;
    signal.throwIfAborted();
    if (!this.#isAlive) throw crashed();
    const own = this.#nextId++;
    const call = Promise.withResolvers<Answer>();
    this.#calls.set(own, call);
    using _ = onAbort(signal, () => {
      this.#send({ cancel: { id: own } });
      this.#killUnlessAnswered(own);
      call.reject(signal.reason as Error);
    });
    try {
      this.#unanswered.add(own);
      this.#send({ ask: { id: own, asked, ...by } });
      return await call.promise;
    } finally {
      this.#calls.delete(own);
    }
  }

  /** Ends the process, which cancels what it runs. */
  async end(): Promise<void> {
    // Wait until it is up: a bwrap that is killed while it builds its sandbox leaves an init behind.
    await this.#ready.promise.catch(() => {}); // It is gone already.
    const { powers, limits } = this.#options;
    this.#frames.end();
    const timer = powers.after(limits.databaseEndMs, () => this.#kill());
    await this.#gone;
    timer.cancel();
  }

  get #frames(): Socket {
    return this.#child.stdio[HOST_FRAMES_FD] as Socket;
  }

  #send(message: ToServerProcess): void {
    if (this.#isAlive) this.#frames.write(toFrame(message, this.#options.limits.frameBytesMax));
  }

  /** Ends the process if a server keeps it so busy that it does not even answer a call that was cancelled. */
  #killUnlessAnswered(id: number): void {
    const { limits, powers } = this.#options;
    powers.after(limits.egressConnectMs + 2 * limits.databaseEndMs, () => {
      if (this.#unanswered.has(id)) this.#kill();
    });
  }

  #receive(reader: FrameReader, chunk: Buffer): void {
    try {
      for (const payload of reader.push(chunk)) this.#take(fromProcess.parse(decode(payload, this.#options.limits)));
    } catch (error) {
      this.#options.powers.log.error({ error }, 'a database process sent an invalid message; ending it');
      this.#kill();
    }
  }

  #take(message: FromServerProcess): void {
    if ('ready' in message) return this.#ready.resolve();
    const { id: own } = 'answered' in message ? message.answered : message.refused;
    this.#unanswered.delete(own);
    if ('answered' in message) this.#calls.get(own)?.resolve(message.answered.answer);
    else {
      const { code, message: why, suggestion } = message.refused.refusal;
      const error = new ToolError(code, why, { suggestion });
      this.#calls.get(own)?.reject(error);
    }
  }

  #kill(): void {
    this.#child.kill('SIGKILL');
    this.#end();
  }

  #end(): void {
    if (!this.#isAlive) return;
    this.#isAlive = false;
    this.#frames.destroy();
    this.#ready.promise.catch(() => {}); // Avoids an unhandled rejection when nobody awaits it.
    const why = `the process of the database connection could not be started: ${this.#stderr.last}`;
    this.#ready.reject(new ToolError('SANDBOX_UNAVAILABLE', why));
    for (const it of [...this.#calls.values()]) it.reject(crashed());
    this.#lost.resolve();
  }
}

function crashed(): ToolError {
  return new ToolError('HOST_CRASHED', 'the process of the database connection ended', {
    suggestion: 'The server may have sent what no database sends. Nothing of this machine was within its reach.',
  });
}
