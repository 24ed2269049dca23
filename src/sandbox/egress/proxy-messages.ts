/** The shapes of what the egress proxy sends, which are checked and otherwise not trusted. */
import * as z from 'zod';
import { toHostName } from '../../policy/network.ts';

const count = z.int().min(1);
const target = z.string().max(300);
const response = z.strictObject({
  status: z.int().min(100).max(999),
  /** Names in lower case; without the headers of the compression that was undone. */
  headers: z.record(z.string(), z.string()),
  body: z.instanceof<typeof Uint8Array<ArrayBufferLike>>(Uint8Array),
  /** Whether the body was longer. */
  truncated: z.boolean(),
});
export type HttpResponse = Readonly<z.output<typeof response>>;

const answer = z.union([
  response,
  z.strictObject({ refused: z.string() }),
  z.strictObject({ late: z.string() }),
  z.strictObject({ failed: z.string() }),
]);
/** An answer with any status, or why there is none: a rule, the time limit, or the server. */
export type HttpAnswer = Readonly<z.output<typeof answer>>;

const port = z.int().min(1).max(65_535);
/** The host in its canonical form: a compromised proxy must not have a person shown anything else. */
const host = z.string().refine((it) => toHostName(it) === it);
const question = z.strictObject({
  kind: z.enum(['host', 'upload', 'program', 'service']),
  host,
  port,
  clientPort: port.optional(),
  sent: z.int().min(0),
});
const denial = z.strictObject({
  /** `host:port`. */
  target,
  layer: z.enum(['policy', 'sandbox', 'limit']),
  reason: z.string().max(1024),
  count,
});
export type EgressDenial = Readonly<z.output<typeof denial>>;

const report = z.strictObject({
  connected: z.array(z.strictObject({ target, count })).readonly(),
  /** Bytes that went to each host, by `host:port`. */
  sent: z.array(z.strictObject({ target, bytes: z.int().min(0) })).readonly(),
  denied: z.array(denial).readonly(),
});
/** Network activity of a command. */
export type EgressReport = Readonly<z.output<typeof report>>;

const asked = z.strictObject({ token: z.string().max(256), id: z.int().min(1), question });
export type Asked = z.output<typeof asked>;

/** Messages of the proxy. */
export const fromProxy = z.union([
  z.strictObject({ ready: z.literal(true) }),
  z.strictObject({ asked }),
  /** The first connection with a token that is not open, or its first name; the gateway opens it or closes it. */
  z.strictObject({ arrived: z.string().max(256) }),
  z.strictObject({ opened: z.string() }),
  z.strictObject({ fetched: z.strictObject({ token: z.string(), answer }) }),
  z.strictObject({ closed: z.strictObject({ token: z.string(), report }) }),
]);
export type ProxyMessage = z.output<typeof fromProxy>;
