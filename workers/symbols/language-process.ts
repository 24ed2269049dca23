/**
 * A child process of the host that understands a language: JSON-RPC over its pipes, one request at a time. It runs in
 * the host's sandbox within bounds of its own, reads untrusted sources, and may be killed at any time.
 */
import type { ChildProcess } from 'node:child_process';
import type { Readable, Writable } from 'node:stream';
import type { ErrorCodes, MessageConnection } from 'vscode-jsonrpc/node';
import { ToolError } from '../../src/base/errors.ts';
import { onAbort, type Powers } from '../../src/base/powers.ts';
import { type BoundedProgram, boundedLaunch } from './bounded-program.ts';

export interface LanguageProcessOptions extends BoundedProgram {
  /** The name of the process in errors. */
  readonly name: string;
  readonly env: Readonly<Record<string, string>>;
  /** The most bytes of output per request; more kills it. */
  readonly answerBytesMax: number;
  /** What to do if it ends, in place of the advice for symbols. */
  readonly suggestion?: string;
  readonly powers: Powers;
}

const STDERR_CHARS_KEPT = 4096;

/** An error response that leaves the process alive: a file that is gone, a position without a name. */
export class ErrorResponse extends Error {}

/** The child process; the first request that needs it starts it. */
export class LanguageProcess implements Disposable {
  readonly #options: LanguageProcessOptions;
  readonly #child: ChildProcess;
  readonly #connection: Promise<MessageConnection>;
  readonly #ended: Promise<void>;
  #alive = true;
  #stderr = '';
  /** Bytes of output since the last request. */
  #bytes = 0;
  #tooMuch = false;

  constructor(options: LanguageProcessOptions) {
    this.#options = options;
    const [program, ...args] = boundedLaunch(options);
    // No PATH: it has no programs to start.
    const child = options.powers.spawn(program, args, { stdio: 'pipe', cwd: '/', env: { ...options.env } });
    this.#child = child;
    this.#ended = new Promise((resolve) => {
      child.once('error', (error) => {
        this.#stderr = error.message;
        resolve();
      });
      child.once('close', () => resolve());
    });
    void this.#ended.then(() => {
      this.#alive = false;
    });
    for (const stream of child.stdio) stream?.on('error', () => {});
    child.stderr?.on('data', (chunk) => {
      if (this.#stderr.length < STDERR_CHARS_KEPT) this.#stderr += `${chunk}`.slice(0, STDERR_CHARS_KEPT);
    });
    child.stdout?.on('data', (chunk: Buffer) => this.#count(chunk.length));
    this.#connection = connect(child.stdout as Readable, child.stdin as Writable);
    // The pipes of an idle child must not keep a thread from ending.
    child.unref();
    for (const stream of child.stdio) (stream as { unref?(): void } | null)?.unref?.();
  }

  get alive(): boolean {
    return this.#alive;
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  /**
   * Sends a request. Throws MEMORY_LIMIT, OUTPUT_LIMIT or HOST_CRASHED if the process ends meanwhile, ErrorResponse for
   * an error response, and the signal's reason, after killing the process: a request can't be stopped otherwise.
   */
  request<T>(method: string, params: unknown, signal: AbortSignal): Promise<T> {
    this.#bytes = 0;
    return this.#unlessAborted(signal, async (ended) => {
      const answers = await import('vscode-jsonrpc/node');
      const connection = await this.#connection;
      const answer = connection.sendRequest<T>(method, params).catch((error: Error) => {
        const isAnswer = error instanceof answers.ResponseError && !isOurOwn(error.code, answers.ErrorCodes);
        if (this.#alive && isAnswer) throw new ErrorResponse(error.message);
        // A broken connection is useless; the end of the child tells the reason.
        this.kill();
        return ended;
      });
      return Promise.race([answer, ended]);
    });
  }

  /** Sends a notification; a process that does not read it is killed at the abort, like for a request. */
  notify(method: string, params: unknown, signal: AbortSignal): Promise<void> {
    return this.#unlessAborted(signal, async () => {
      const connection = await this.#connection;
      // A write error means that the process has ended, which the next request reports.
      await connection.sendNotification(method, params).catch(() => {});
    });
  }

  kill(): void {
    this.#alive = false;
    this.#child.kill('SIGKILL');
  }

  [Symbol.dispose](): void {
    this.kill();
  }

  async #unlessAborted<T>(signal: AbortSignal, work: (ended: Promise<never>) => Promise<T>): Promise<T> {
    const aborted = Promise.withResolvers<never>();
    using _ = onAbort(signal, () => {
      this.kill();
      aborted.reject(signal.reason);
    });
    const ended = this.#ended.then((): never => {
      throw this.#failure();
    });
    ended.catch(() => {}); // Avoids an unhandled rejection when nobody awaits it.
    // Unlike its pipes, a pending request keeps the thread alive.
    this.#child.ref();
    try {
      return await Promise.race([aborted.promise, work(ended)]);
    } finally {
      this.#child.unref();
    }
  }

  #count(bytes: number): void {
    this.#bytes += bytes;
    if (this.#bytes <= this.#options.answerBytesMax) return;
    this.#tooMuch = true;
    this.kill();
  }

  #failure(): ToolError {
    const { name, memoryBytes, answerBytesMax, suggestion } = this.#options;
    if (this.#tooMuch)
      return new ToolError('OUTPUT_LIMIT', `${name} answered with more than ${answerBytesMax} bytes`, {
        suggestion: suggestion ?? 'Ask for a less common name, or give its file and line.',
        details: { limit: answerBytesMax, enforcedBy: 'host' },
      });
    if (/out of memory|failed to (re)?allocate|memory allocation|cannot allocate/i.test(this.#stderr))
      return new ToolError('MEMORY_LIMIT', `${name} needed more than ${memoryBytes} bytes of memory`, {
        suggestion: suggestion ?? 'Search with file_grep; very large source files or projects exceed this limit.',
        details: { limit: memoryBytes, enforcedBy: 'rlimit' },
      });
    return new ToolError('HOST_CRASHED', `${name} ended during this call`, {
      suggestion: suggestion ?? 'Try once more; if it ends again, search with file_grep.',
    });
  }
}

/** Whether the library itself made the error, for a message that was not delivered. */
const isOurOwn = (code: number, codes: typeof ErrorCodes): boolean =>
  code === codes.MessageWriteError || code === codes.PendingResponseRejected || code === codes.ConnectionInactive;

async function connect(from: Readable, to: Writable): Promise<MessageConnection> {
  const { createMessageConnection, StreamMessageReader, StreamMessageWriter } = await import('vscode-jsonrpc/node');
  const connection = createMessageConnection(new StreamMessageReader(from), new StreamMessageWriter(to));
  // Answers requests for watches and settings with null: it is told of changes before each request.
  connection.onRequest(() => null);
  connection.onError(() => {});
  connection.listen();
  return connection;
}
