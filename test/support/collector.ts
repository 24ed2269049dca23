/** A real HTTP server that takes traces as an OpenTelemetry collector does, and holds each request to the shape of OTLP/HTTP in JSON. */
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import * as z from 'zod';

const keyValue = z.strictObject({
  key: z.string().min(1),
  value: z.union([
    z.strictObject({ stringValue: z.string() }),
    z.strictObject({ boolValue: z.boolean() }),
    z.strictObject({ intValue: z.string().regex(/^-?\d+$/) }),
    z.strictObject({ doubleValue: z.number() }),
  ]),
});
const nanos = z.string().regex(/^\d{19}$/);
const span = z.strictObject({
  traceId: z.string().regex(/^[0-9a-f]{32}$/),
  spanId: z.string().regex(/^[0-9a-f]{16}$/),
  parentSpanId: z
    .string()
    .regex(/^[0-9a-f]{16}$/)
    .optional(),
  traceState: z.string().optional(),
  name: z.string().min(1),
  kind: z.union([z.literal(1), z.literal(2)]),
  startTimeUnixNano: nanos,
  endTimeUnixNano: nanos,
  attributes: z.array(keyValue),
  status: z.strictObject({ code: z.literal(2).optional() }),
});
const request = z.strictObject({
  resourceSpans: z.array(
    z.strictObject({
      resource: z.strictObject({ attributes: z.array(keyValue) }),
      scopeSpans: z.array(
        z.strictObject({
          scope: z.strictObject({ name: z.string(), version: z.string() }),
          schemaUrl: z.url(),
          spans: z.array(span).min(1),
        }),
      ),
    }),
  ),
});

export interface CollectedSpan extends Omit<z.output<typeof span>, 'attributes'> {
  readonly attributes: Record<string, string | boolean>;
}

export interface Collector extends AsyncDisposable {
  readonly endpoint: string;
  readonly spans: CollectedSpan[];
  /** Texts of the requests. */
  readonly bodies: string[];
  readonly headers: IncomingHttpHeaders[];
  readonly resource: () => Record<string, string | boolean>;
  /** What was wrong with requests. */
  readonly problems: string[];
  /** Answers the next requests in place of 200. */
  answer: ((incoming: IncomingMessage, response: ServerResponse) => void) | undefined;
}

const plain = (attributes: readonly z.output<typeof keyValue>[]): Record<string, string | boolean> =>
  Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0] as string | boolean]));

export async function startCollector(): Promise<Collector> {
  let resource: Record<string, string | boolean> = {};
  const take = (text: string) => {
    collector.bodies.push(text);
    const parsed = request.safeParse(JSON.parse(text));
    if (!parsed.success) return void collector.problems.push(z.prettifyError(parsed.error));
    for (const it of parsed.data.resourceSpans) {
      resource = plain(it.resource.attributes);
      for (const { spans } of it.scopeSpans)
        collector.spans.push(...spans.map((each) => ({ ...each, attributes: plain(each.attributes) })));
    }
  };
  const server = createServer((incoming, response) => {
    if (collector.answer) return collector.answer(incoming, response);
    const { method, url, headers } = incoming;
    collector.headers.push(headers);
    if (method !== 'POST' || url !== '/v1/traces' || headers['content-type'] !== 'application/json')
      collector.problems.push(`${method} ${url} ${headers['content-type']}`);
    let text = '';
    incoming.setEncoding('utf8').on('data', (piece: string) => (text += piece));
    incoming.on('end', () => {
      take(text);
      response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const collector: Collector = {
    endpoint: `http://127.0.0.1:${port}/v1/traces`,
    spans: [],
    bodies: [],
    headers: [],
    problems: [],
    answer: undefined,
    resource: () => resource,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return collector;
}
