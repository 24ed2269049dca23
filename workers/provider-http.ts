/** A provider's server elsewhere: reached through the egress proxy only, which judges where to; its answers are bounded while they come. */
import { setGlobalProxyFromEnv } from 'node:http';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import type { Limits } from '../src/limits.ts';
import { EGRESS_PROXY_URL } from '../src/sandbox/listener-program.ts';

export interface ServerAddress {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
}

export function connectHttp({ url, headers }: ServerAddress, limits: Limits): StreamableHTTPClientTransport {
  setGlobalProxyFromEnv({ http_proxy: EGRESS_PROXY_URL, https_proxy: EGRESS_PROXY_URL });
  // A redirect would take the headers, which are credentials, to where nobody meant them to go.
  return new StreamableHTTPClientTransport(new URL(url), {
    requestInit: { headers, redirect: 'error' },
    fetch: async (target, init) => bounded(await fetch(target, init), limits),
  });
}

/** The same answer, which breaks off where a line, or an answer that is no stream of events, is too long. */
function bounded(response: Response, { providerMessageBytes: max }: Limits): Response {
  if (!response.body) return response;
  const isStream = response.headers.get('content-type')?.startsWith('text/event-stream') ?? false;
  let bytes = 0;
  const count = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      const newline = isStream ? chunk.lastIndexOf(NEWLINE) : -1;
      bytes = newline < 0 ? bytes + chunk.length : chunk.length - newline;
      if (bytes > max) controller.error(new Error(`the server sent a message of more than ${max} bytes`));
      else controller.enqueue(chunk);
    },
  });
  const { status, statusText, headers } = response;
  return new Response(response.body.pipeThrough(count), { status, statusText, headers });
}

const NEWLINE = 10;
