/** The shapes of what the egress proxy sends, which are checked and otherwise not trusted. */
import * as z from 'zod';
import { toHostName } from '../../policy/network.ts';

const count = z.int().min(1);
const target = z.string().max(300);
const answer = z.union([
  z.strictObject({
    status: z.int().min(100).max(999),
    headers: z.record(z.string(), z.string()),
    body: z.instanceof(Uint8Array),
    truncated: z.boolean(),
  }),
  z.strictObject({ refused: z.string() }),
  z.strictObject({ late: z.string() }),
  z.strictObject({ failed: z.string() }),
]);
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
const asked = z.strictObject({ token: z.string().max(256), id: z.int().min(1), question });
export type Asked = z.output<typeof asked>;

/** Messages of the proxy. */
export const fromProxy = z.union([
  z.strictObject({ ready: z.literal(true) }),
  z.strictObject({ asked }),
  z.strictObject({ arrived: z.string().max(256) }),
  z.strictObject({ opened: z.string() }),
  z.strictObject({ fetched: z.strictObject({ token: z.string(), answer }) }),
  z.strictObject({
    closed: z.strictObject({
      token: z.string(),
      report: z.strictObject({
        connected: z.array(z.strictObject({ target, count })),
        sent: z.array(z.strictObject({ target, bytes: z.int().min(0) })),
        denied: z.array(
          z.strictObject({
            target,
            layer: z.enum(['policy', 'sandbox', 'limit']),
            reason: z.string().max(1024),
            count,
          }),
        ),
      }),
    }),
  }),
]);
export type ProxyMessage = z.output<typeof fromProxy>;
