/**
 * A scripted model server on loopback, for tests of agents without a model. It speaks OpenAI chat completions at
 * `/v1/chat/completions` and Anthropic messages at `/v1/messages`, streamed or whole:
 *
 *     await using server = await ModelServer.start([{ calls: [{ name: 'file_read', input: { path: 'a' } }] }, { text: 'done' }]);
 *     // send requests to server.url; server.requests holds what came
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setImmediate } from 'node:timers/promises';
import { readUpTo } from '../base/text/bounded.ts';
import { parseJson } from '../base/text/json.ts';
import { type Dialect, endlessDelta, type ModelReply, messageOf, streamOf } from './model-reply.ts';

export type { Dialect, ModelReply, ScriptedCall } from './model-reply.ts';

export interface ModelRequest {
  readonly dialect: Dialect;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: Readonly<Record<string, unknown>>;
}

/** The answers in their order, or a function that gives the answer to each request. After the last answer, the last is repeated. */
export type ModelScript =
  | readonly ModelReply[]
  | ((request: ModelRequest, number: number) => ModelReply | Promise<ModelReply>);

const REQUEST_BYTES_MAX = 32 * 1024 * 1024;
const DIALECTS: Readonly<Record<string, Dialect>> = {
  '/v1/chat/completions': 'openai',
  '/v1/messages': 'anthropic',
};
/** Pieces of a stream without an end that are written at a time. */
const ENDLESS_DELTAS = 100;

export class ModelServer implements AsyncDisposable {
  readonly #server: Server;
  readonly #script: ModelScript;
  /** The requests so far, the first one first. */
  readonly requests: ModelRequest[] = [];

  private constructor(script: ModelScript) {
    this.#script = script;
    this.#server = createServer((request, response) => {
      this.#answer(request, response).catch((error: unknown) => response.destroy(error as Error));
    });
  }

  /** Starts a server at a free port of 127.0.0.1. */
  static async start(script: ModelScript): Promise<ModelServer> {
    const model = new ModelServer(script);
    await once(model.#server.listen(0, '127.0.0.1'), 'listening');
    return model;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** The base URL as profiles and SDKs of OpenAI take it, with `/v1` at its end. */
  get url(): string {
    return `http://127.0.0.1:${this.port}/v1`;
  }

  /** Ends all connections and stops listening. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await this.#server[Symbol.asyncDispose]();
  }

  async #answer(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const dialect = DIALECTS[(incoming.url ?? '').split('?')[0] ?? ''];
    const body = await bodyOf(incoming);
    if (!dialect || incoming.method !== 'POST') return sendJson(outgoing, 404, { error: { message: 'not found' } });
    const request = { dialect, headers: incoming.headers, body };
    const number = this.requests.push(request);
    const reply = await this.#replyTo(request, number);
    const { status = 200, headers = {} } = reply;
    for (const [name, value] of Object.entries(headers)) outgoing.setHeader(name, value);
    if (status !== 200) return sendJson(outgoing, status, reply.body ?? { error: { message: `status ${status}` } });
    if (body.stream !== true) return sendJson(outgoing, 200, messageOf(dialect, reply, number));
    outgoing.writeHead(200, { 'content-type': 'text/event-stream' });
    await this.#stream(outgoing, { dialect, reply, number });
  }

  async #replyTo(request: ModelRequest, number: number): Promise<ModelReply> {
    if (typeof this.#script === 'function') return this.#script(request, number);
    const reply = this.#script[Math.min(number, this.#script.length) - 1];
    if (!reply) throw new Error('the script of the model holds no answer');
    return reply;
  }

  async #stream(
    outgoing: ServerResponse,
    { dialect, reply, number }: { dialect: Dialect; reply: ModelReply; number: number },
  ): Promise<void> {
    const bytes = Buffer.from(streamOf(dialect, reply, number));
    const cutAt = reply.stallAfterBytes ?? reply.breakAfterBytes ?? bytes.length;
    await this.#write(outgoing, bytes.subarray(0, cutAt), reply.writeBytes);
    if (reply.breakAfterBytes !== undefined) return void outgoing.destroy();
    if (reply.stallAfterBytes !== undefined) return;
    if (!reply.endless) return void outgoing.end();
    const more = Buffer.from(endlessDelta(dialect, number).repeat(ENDLESS_DELTAS));
    while (!outgoing.destroyed && !outgoing.closed) await this.#write(outgoing, more, undefined);
  }

  /** Writes in pieces, each of which goes out alone. */
  async #write(outgoing: ServerResponse, bytes: Buffer, writeBytes: number | undefined): Promise<void> {
    outgoing.socket?.setNoDelay(true);
    const size = writeBytes ?? Math.max(bytes.length, 1);
    for (let at = 0; at < bytes.length && !outgoing.destroyed; at += size) {
      outgoing.write(bytes.subarray(at, at + size));
      await setImmediate();
    }
  }
}

async function bodyOf(incoming: IncomingMessage): Promise<Record<string, unknown>> {
  const bytes = await readUpTo(incoming, REQUEST_BYTES_MAX);
  if (!bytes) throw new Error(`the request is longer than ${REQUEST_BYTES_MAX} bytes`);
  const text = bytes.toString();
  return text === '' ? {} : (parseJson(text) as Record<string, unknown>);
}

function sendJson(outgoing: ServerResponse, status: number, value: unknown): void {
  outgoing.writeHead(status, { 'content-type': 'application/json' });
  outgoing.end(JSON.stringify(value));
}
