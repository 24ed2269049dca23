/** An HTTP service on this machine that a test plays: it keeps each request and answers what the test says. */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { jsonOr } from '../base/text/json.ts';

export interface ServiceRequest {
  readonly method: string;
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
  /** Values by name in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** The body, if it is JSON. */
  readonly json?: unknown;
}

export interface ServiceAnswer {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** A text as it is, anything else as JSON. */
  readonly body?: unknown;
}

type Play = (request: ServiceRequest) => ServiceAnswer | Promise<ServiceAnswer>;

export class PlayedService {
  readonly requests: ServiceRequest[] = [];
  readonly #server: Server;

  /** Listens on loopback alone. */
  static async start(play: Play): Promise<PlayedService> {
    const service = new PlayedService(play);
    await once(service.#server.listen(0, '127.0.0.1'), 'listening');
    return service;
  }

  private constructor(play: Play) {
    this.#server = createServer(async (incoming, outgoing) => {
      try {
        const request = await toRequest(incoming);
        this.requests.push(request);
        const { status = 200, headers = {}, body = '' } = await play(request);
        const isText = typeof body === 'string';
        outgoing.writeHead(status, { 'content-type': isText ? 'text/plain' : 'application/json', ...headers });
        outgoing.end(isText ? body : JSON.stringify(body));
      } catch (error) {
        // The call under test fails with the message of the test's function.
        outgoing
          .writeHead(500, { 'content-type': 'text/plain' })
          .end(`the service of the test failed: ${(error as Error).message}`);
      }
    });
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await this.#server[Symbol.asyncDispose]();
  }
}

async function toRequest(incoming: IncomingMessage): Promise<ServiceRequest> {
  const { pathname: path, searchParams } = new URL(incoming.url ?? '/', 'http://127.0.0.1');
  const body = (await buffer(incoming)).toString();
  const headers = Object.fromEntries(
    Object.entries(incoming.headers).map(([name, it]) => [name, [it].flat().join(', ')]),
  );
  const json = jsonOr(body, undefined);
  const query = Object.fromEntries(searchParams);
  return { method: incoming.method ?? 'GET', path, query, headers, body, json };
}
