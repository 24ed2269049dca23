/** A client that sends raw bytes. */
import { createConnection, type Socket } from 'node:net';
import { defaultLimits } from '../../src/base/limits.ts';
import { decode, encode } from '../../src/wire/protocol/codec.ts';
import { encodeFrame, FrameReader } from '../../src/wire/protocol/frame.ts';

export interface Answer {
  id?: unknown;
  method?: string;
  params?: unknown;
  result?: Record<string, unknown>;
  error?: { code: number; message: string; data: { code: string } };
}

export class RawPeer {
  readonly socket: Socket;
  readonly answers: Answer[] = [];
  readonly closed: Promise<void>;
  #wake: () => void = () => {};

  constructor(path: string) {
    this.socket = createConnection(path);
    const reader = new FrameReader(defaultLimits.frameBytesMax);
    this.socket.on('data', (chunk: Buffer) => {
      for (const payload of reader.push(chunk)) this.answers.push(decode(payload, defaultLimits) as Answer);
      this.#wake();
    });
    this.socket.on('error', () => {}); // The daemon closes the connection, which `closed` reports.
    this.closed = new Promise((resolve) =>
      this.socket.once('close', () => {
        this.#wake();
        resolve();
      }),
    );
  }

  bytes(bytes: Uint8Array): void {
    this.socket.write(bytes);
  }

  send(message: unknown): void {
    this.bytes(encodeFrame(encode(message), 2 ** 30));
  }

  hello(more: object = {}): Promise<Answer> {
    return this.request('hello', { protocol: 1, client: { name: 'raw', version: '1' }, ...more });
  }

  #nextId = 1;
  request(method: string, params: unknown): Promise<Answer> {
    const id = this.#nextId++;
    this.send({ id, method, params });
    return this.answer((it) => it.id === id);
  }

  /** The first matching answer; rejects if the connection ends before. */
  async answer(fits: (answer: Answer) => boolean): Promise<Answer> {
    for (;;) {
      const found = this.answers.find(fits);
      if (found) return found;
      if (this.socket.destroyed) throw new Error('the connection ended without that answer');
      await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }
}
