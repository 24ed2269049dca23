/** Connects to a remote provider: only through the egress proxy, which decides where to; bounds answers while they arrive. */
import { setGlobalProxyFromEnv } from 'node:http';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { createParser } from 'eventsource-parser';
import type { Limits } from '../../src/base/limits.ts';
import type { Powers } from '../../src/base/powers.ts';
import { EGRESS_PROXY_URL } from '../../src/sandbox/door.ts';
import { ResponseFilter } from './answers.ts';

export interface ServerAddress {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
}

export interface HttpOptions {
  readonly limits: Limits;
  readonly powers: Pick<Powers, 'monotonicMs'>;
  /** Called when the server has sent more than it may. */
  onFailure(reason: string): void;
}

export function connectHttp({ url, headers }: ServerAddress, options: HttpOptions): StreamableHTTPClientTransport {
  setGlobalProxyFromEnv({ http_proxy: EGRESS_PROXY_URL, https_proxy: EGRESS_PROXY_URL });
  const bounds = new ResponseBounds(options);
  const answers = new ResponseFilter(options.limits);
  const transport: HttpTransport = new HttpTransport(new URL(url), answers, {
    // A redirect would send the headers, which are credentials, to another server.
    requestInit: { headers, redirect: 'error' },
    fetch: async (target, init) => {
      const response = await fetch(target, init);
      if (!isEventStream(response)) return through(response, bounds.ofMessage());
      // The SDK only reports that an event was malformed; its request would wait for ever.
      const onEvent = (data: string) => {
        for (const it of answers.errorsIn(data)) transport.onmessage?.(it);
      };
      return through(response, bounds.ofStream(onEvent));
    },
  });
  return transport;
}

class HttpTransport extends StreamableHTTPClientTransport {
  readonly #answers: ResponseFilter;

  constructor(
    url: URL,
    answers: ResponseFilter,
    options: ConstructorParameters<typeof StreamableHTTPClientTransport>[1],
  ) {
    super(url, options);
    this.#answers = answers;
  }

  override send(...[message, options]: Parameters<StreamableHTTPClientTransport['send']>): Promise<void> {
    this.#answers.noteSent(message);
    return super.send(message, options);
  }
}

const isEventStream = ({ headers }: Response): boolean =>
  headers.get('content-type')?.startsWith('text/event-stream') ?? false;

/** Pipes the body of an answer through a transform. */
function through(response: Response, body: TransformStream<Uint8Array, Uint8Array>): Response {
  const { status, statusText, headers } = response;
  return response.body ? new Response(response.body.pipeThrough(body), { status, statusText, headers }) : response;
}

/** Bounds what a server may send; cuts off an answer that exceeds them. */
class ResponseBounds {
  readonly #options: HttpOptions;
  /** Lines of all answers together within the present second. */
  readonly #second = { since: 0, lines: 0 };

  constructor(options: HttpOptions) {
    this.#options = options;
  }

  ofMessage(): TransformStream<Uint8Array, Uint8Array> {
    let bytes = 0;
    return this.#checked((chunk) => {
      bytes += chunk.length;
      return this.#tooLong(bytes);
    });
  }

  /** Passes the data of each event to `onEvent`. */
  ofStream(onEvent: (data: string) => void): TransformStream<Uint8Array, Uint8Array> {
    const { providerMessageBytes: maxBufferSize } = this.#options.limits;
    let [lineBytes, isOver] = [0, false];
    const decoder = new TextDecoder();
    const parser = createParser({
      maxBufferSize,
      onEvent: ({ data, event = 'message' }) => {
        if (event === 'message') onEvent(data);
      },
      // An event of many lines, each within its bound.
      onError: ({ type }) => {
        if (type === 'max-buffer-size-exceeded') isOver = true;
      },
    });
    return this.#checked((chunk) => {
      const newline = chunk.lastIndexOf(NEWLINE);
      lineBytes = newline < 0 ? lineBytes + chunk.length : chunk.length - newline;
      const over = this.#tooLong(lineBytes) ?? this.#tooMany(chunk);
      if (over) return over;
      parser.feed(decoder.decode(chunk, { stream: true }));
      return isOver ? this.#tooLong(Infinity) : undefined;
    });
  }

  /** Passes chunks on until `overOf` names a bound that is exceeded. */
  #checked(overOf: (chunk: Uint8Array) => string | undefined): TransformStream<Uint8Array, Uint8Array> {
    return new TransformStream({
      transform: (chunk, controller) => {
        const over = overOf(chunk);
        if (over === undefined) return controller.enqueue(chunk);
        controller.error(new Error(`the server sent ${over}`));
        this.#options.onFailure(`the server sent ${over}`);
      },
    });
  }

  #tooLong(bytes: number): string | undefined {
    const { providerMessageBytes: max } = this.#options.limits;
    return bytes > max ? `a message of more than ${max} bytes` : undefined;
  }

  #tooMany(chunk: Uint8Array): string | undefined {
    const { providerMessagesPerSecond: max } = this.#options.limits;
    const now = this.#options.powers.monotonicMs();
    if (now - this.#second.since > SECOND_MS) Object.assign(this.#second, { since: now, lines: 0 });
    this.#second.lines += chunk.reduce((lines, it) => (it === NEWLINE || it === RETURN ? lines + 1 : lines), 0);
    return this.#second.lines > LINES_PER_MESSAGE * max ? `more than ${max} messages in a second` : undefined;
  }
}

const NEWLINE = 10;
const RETURN = 13;
const SECOND_MS = 1000;
/** Lines of an event: its kind, its id, its data, and an empty line. */
const LINES_PER_MESSAGE = 4;
