/**
 * One child of the host that understands a language: JSON-RPC over its pipes, one question at a time. It is held by the
 * host's own sandbox and by its own bounds, reads what others wrote, and may be killed at any time.
 */
import type { ChildProcess } from 'node:child_process';
import type { Readable, Writable } from 'node:stream';
import type { ErrorCodes, MessageConnection } from 'vscode-jsonrpc/node';
import { ToolError } from '../src/errors.ts';
import type { Powers } from '../src/powers.ts';
import { findProgram } from '../src/sandbox/bubblewrap.ts';

export interface LanguageProcessOptions {
  /** Who it is, for errors. */
  readonly name: string;
  readonly program: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly memoryBytes: number;
  /** Output between one question and its answer, after which it is killed. */
  readonly answerBytesMax: number;
  readonly powers: Powers;
}

const STDERR_CHARS_KEPT = 4096;

/** An error of the other side that leaves it alive: a file that is no longer there, a place without a name. */
export class Unanswered extends Error {}

/** A child of our own, which is started with the first question that needs it. */
export class LanguageProcess implements Disposable {
  readonly #options: LanguageProcessOptions;
  readonly #child: ChildProcess;
  readonly #connection: Promise<MessageConnection>;
  readonly #ended: Promise<void>;
  #alive = true;
  #stderr = '';
  /** Since the last question. */
  #bytes = 0;
  #tooMuch = false;

  constructor(options: LanguageProcessOptions) {
    this.#options = options;
    const [program, ...args] = launchOf(options) as [string, ...string[]];
    // No PATH: it has nothing to start.
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
    // Pipes of a child that waits for questions must not keep a thread from ending.
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
   * Throws MEMORY_LIMIT, OUTPUT_LIMIT and HOST_CRASHED where it ends meanwhile, Unanswered for an error of its own, and the
   * signal's reason, at which it is killed: who does not want the answer can't make it stop otherwise.
   */
  request<T>(method: string, params: unknown, signal: AbortSignal): Promise<T> {
    this.#bytes = 0;
    return this.#unlessAborted(signal, async (ended) => {
      const answers = await import('vscode-jsonrpc/node');
      const connection = await this.#connection;
      const answer = connection.sendRequest<T>(method, params).catch((error: Error) => {
        const isAnswer = error instanceof answers.ResponseError && !isOurOwn(error.code, answers.ErrorCodes);
        if (this.#alive && isAnswer) throw new Unanswered(error.message);
        // A line that broke is worth nothing any more; why it did is told by the child's end.
        this.kill();
        return ended;
      });
      return Promise.race([answer, ended]);
    });
  }

  /** Tells it something; whoever does not read what it is told is killed at the abort, as for a question. */
  notify(method: string, params: unknown, signal: AbortSignal): Promise<void> {
    return this.#unlessAborted(signal, async () => {
      const connection = await this.#connection;
      // It may have ended; the next question says so.
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
    const abort = () => {
      this.kill();
      aborted.reject(signal.reason);
    };
    if (signal.aborted) abort();
    signal.addEventListener('abort', abort, { once: true });
    const ended = this.#ended.then((): never => {
      throw this.#failure();
    });
    ended.catch(() => {}); // Not everybody waits for it.
    // Unlike its pipes, a question keeps the thread alive until it is answered.
    this.#child.ref();
    try {
      return await Promise.race([aborted.promise, work(ended)]);
    } finally {
      this.#child.unref();
      signal.removeEventListener('abort', abort);
    }
  }

  #count(bytes: number): void {
    this.#bytes += bytes;
    if (this.#bytes <= this.#options.answerBytesMax) return;
    this.#tooMuch = true;
    this.kill();
  }

  #failure(): ToolError {
    const { name, memoryBytes, answerBytesMax } = this.#options;
    if (this.#tooMuch)
      return new ToolError('OUTPUT_LIMIT', `${name} answered with more than ${answerBytesMax} bytes`, {
        suggestion: 'Ask for a less common name, or say where it is by file and line.',
        details: { limit: answerBytesMax, enforcedBy: 'host' },
      });
    if (/out of memory|failed to (re)?allocate|memory allocation|cannot allocate/i.test(this.#stderr))
      return new ToolError('MEMORY_LIMIT', `${name} needed more than ${memoryBytes} bytes of memory`, {
        suggestion: 'Search with file_grep; very large source files or projects are too much for it.',
        details: { limit: memoryBytes, enforcedBy: 'rlimit' },
      });
    return new ToolError('HOST_CRASHED', `${name} ended in the middle of this call`, {
      suggestion: 'Try once more; if it ends again, search with file_grep.',
    });
  }
}

/** Whether the library says it, for a message that never got there or back. */
const isOurOwn = (code: number, codes: typeof ErrorCodes): boolean =>
  code === codes.MessageWriteError || code === codes.PendingResponseRejected || code === codes.ConnectionInactive;

/** Program and arguments: it dies with the thread that started it, and can't fill the memory. */
function launchOf({ program, args, memoryBytes }: LanguageProcessOptions): string[] {
  const setpriv = findProgram('setpriv');
  const prlimit = findProgram('prlimit');
  return [
    ...(setpriv === undefined ? [] : [setpriv, '--pdeathsig', 'KILL', '--']),
    // What it fills; runtimes reserve far more address space than that.
    ...(prlimit === undefined ? [] : [prlimit, `--data=${memoryBytes}`, '--']),
    ...[program, ...args],
  ];
}

async function connect(from: Readable, to: Writable): Promise<MessageConnection> {
  const { createMessageConnection, StreamMessageReader, StreamMessageWriter } = await import('vscode-jsonrpc/node');
  const connection = createMessageConnection(new StreamMessageReader(from), new StreamMessageWriter(to));
  // It asks for watches and settings, of which there are none: it is told what changed before each question.
  connection.onRequest(() => null);
  connection.onError(() => {});
  connection.listen();
  return connection;
}
