/** A provider's server elsewhere: reached through the egress proxy only, which judges where to; its answers are bounded while they come. */
import { setGlobalProxyFromEnv } from 'node:http';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import type { Limits } from '../src/limits.ts';
import { EGRESS_PROXY_URL } from '../src/sandbox/listener-program.ts';

export interface ServerAddress {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
}

export interface HttpOptions {
  readonly limits: Limits;
  /** Called when it has sent more than it may. */
  onFailure(reason: string): void;
}

export function connectHttp({ url, headers }: ServerAddress, options: HttpOptions): StreamableHTTPClientTransport {
  setGlobalProxyFromEnv({ http_proxy: EGRESS_PROXY_URL, https_proxy: EGRESS_PROXY_URL });
  const second = { since: 0, lines: 0 };
  // A redirect would take the headers, which are credentials, to where nobody meant them to go.
  return new StreamableHTTPClientTransport(new URL(url), {
    requestInit: { headers, redirect: 'error' },
    fetch: async (target, init) => bounded(await fetch(target, init), second, options),
  });
}

/** The same answer, which breaks off where a message of it is too long, or too many come in a second, in all answers together. */
function bounded(
  response: Response,
  second: { since: number; lines: number },
  { limits: { providerMessageBytes, providerMessagesPerSecond }, onFailure }: HttpOptions,
): Response {
  if (!response.body) return response;
  const isStream = response.headers.get('content-type')?.startsWith('text/event-stream') ?? false;
  let bytes = 0;
  const count = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      const newline = isStream ? chunk.lastIndexOf(NEWLINE) : -1;
      bytes = newline < 0 ? bytes + chunk.length : chunk.length - newline;
      const now = performance.now();
      if (now - second.since > SECOND_MS) Object.assign(second, { since: now, lines: 0 });
      if (isStream)
        second.lines += chunk.reduce((lines, it) => (it === NEWLINE || it === RETURN ? lines + 1 : lines), 0);
      if (bytes <= providerMessageBytes && second.lines <= LINES_PER_MESSAGE * providerMessagesPerSecond)
        return controller.enqueue(chunk);
      const what =
        bytes > providerMessageBytes
          ? `a message of more than ${providerMessageBytes} bytes`
          : `more than ${providerMessagesPerSecond} messages in a second`;
      controller.error(new Error(`the server sent ${what}`));
      onFailure(`the server sent ${what}`);
    },
  });
  const { status, statusText, headers } = response;
  return new Response(response.body.pipeThrough(count), { status, statusText, headers });
}

const NEWLINE = 10;
const RETURN = 13;
const SECOND_MS = 1000;
/** Of an event: its kind, its id, its data, and the empty one behind it. */
const LINES_PER_MESSAGE = 4;
