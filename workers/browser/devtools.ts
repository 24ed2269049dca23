/** A client of Chromium's DevTools protocol over two pipes, on which each message ends with a NUL byte. */
import type { Readable, Writable } from 'node:stream';
import { parseJson } from '../../src/base/text/json.ts';
import { isRecord } from '../../src/base/text/values.ts';

export interface DevToolsEvent {
  readonly method: string;
  readonly params: Readonly<Record<string, unknown>>;
  /** The target that it is about; absent for the browser itself. */
  readonly sessionId?: string | undefined;
}

type Answer = Readonly<Record<string, unknown>>;

interface Pending {
  resolve(answer: Answer): void;
  reject(error: Error): void;
}

/** The browser ended, or can't be understood any more. */
export class BrowserEnded extends Error {}

export class DevTools {
  readonly #commands: Writable;
  readonly #bytesMax: number;
  readonly #pending = new Map<number, Pending>();
  #pieces: Buffer[] = [];
  #bytes = 0;
  #nextId = 1;
  #ended: Error | undefined;
  /** Whether the browser has answered anything. */
  hasAnswered = false;
  /** Receives what happens in the browser. */
  onEvent: (event: DevToolsEvent) => void = () => {};

  /** `bytesMax` bounds one message of the browser. */
  constructor(commands: Writable, messages: Readable, bytesMax: number) {
    this.#commands = commands.on('error', () => {}); // EPIPE: the browser ended, which `messages` reports.
    this.#bytesMax = bytesMax;
    messages
      .on('data', (chunk: Buffer) => this.#read(chunk))
      .on('error', () => this.end(new BrowserEnded('it ended')))
      .on('close', () => this.end(new BrowserEnded('it ended')));
  }

  /** Rejects if the browser refuses the command, with BrowserEnded if it ends. */
  send(method: string, params: object = {}, sessionId?: string): Promise<Answer> {
    if (this.#ended) return Promise.reject(this.#ended);
    const id = this.#nextId++;
    this.#commands.write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
    return new Promise((resolve, reject) => this.#pending.set(id, { resolve, reject }));
  }

  /** Rejects all that waits and all that comes. */
  end(error: Error): void {
    this.#ended ??= error;
    for (const { reject } of this.#pending.values()) reject(this.#ended);
    this.#pending.clear();
  }

  #read(chunk: Buffer): void {
    for (let from = 0; from < chunk.length && !this.#ended; ) {
      const at = chunk.indexOf(0, from);
      const piece = chunk.subarray(from, at < 0 ? chunk.length : at);
      this.#pieces.push(piece);
      this.#bytes += piece.length;
      if (this.#bytes > this.#bytesMax)
        return this.end(new BrowserEnded(`it sent a message of more than ${this.#bytesMax} bytes`));
      if (at < 0) return;
      const text = Buffer.concat(this.#pieces).toString();
      this.#pieces = [];
      this.#bytes = 0;
      this.#take(parseJson(text));
      from = at + 1;
    }
  }

  #take(message: unknown): void {
    if (!isRecord(message)) return;
    const { id, method, params, result, error, sessionId } = message;
    if (typeof method === 'string')
      return this.onEvent({
        method,
        params: isRecord(params) ? params : {},
        sessionId: sessionId as string | undefined,
      });
    this.hasAnswered = true;
    const pending = this.#pending.get(id as number);
    this.#pending.delete(id as number);
    if (isRecord(error)) pending?.reject(new Error(String(error.message)));
    else pending?.resolve(isRecord(result) ? result : {});
  }
}
