/** The key `telemetry` of config.yaml. */
import * as z from 'zod';
import {
  openText,
  type SecretContext,
  type SecretSource,
  secretReference,
  toSecretSource,
} from '../../base/secret-source.ts';

const traces = z.strictObject({
  endpoint: z
    .url({ protocol: /^https?$/ })
    .max(2048)
    .describe('Where an OpenTelemetry collector takes traces as OTLP/HTTP, such as `http://127.0.0.1:4318/v1/traces`.'),
  headers: z
    .record(z.string().regex(/^[A-Za-z0-9-]{1,64}$/), z.union([openText, secretReference]))
    .refine((it) => Object.keys(it).length <= 16, 'must name at most 16 headers')
    .default({})
    .describe(
      'Headers of each request: `{ file }` or `{ env }` with an optional `prefix` for a secret, else `{ value }`.',
    ),
  serviceName: z
    .string()
    .min(1)
    .max(128)
    .default('ringfence')
    .describe('The name of the service. Default: `ringfence`.'),
  sample: z
    .number()
    .min(0)
    .max(1)
    .default(1)
    .describe('Share of the calls that are traced, where their caller has not decided. Default: 1.'),
});

export const telemetrySchema = z.strictObject({
  traces: traces.optional().describe('Sends a trace of each call to a collector. Default: none.'),
});

/** The collector of traces, with its references resolved. */
export interface TraceSettings {
  readonly endpoint: string;
  readonly headers: Readonly<Record<string, SecretSource>>;
  readonly serviceName: string;
  readonly sample: number;
}

/** Throws an Error that names what is wrong. */
export function toTraceSettings(given: z.output<typeof traces>, context: SecretContext): TraceSettings {
  const { endpoint, headers } = given;
  const { username, password } = new URL(endpoint);
  if (username !== '' || password !== '')
    throw new Error('telemetry.traces.endpoint: credentials belong in `headers`, not in the URL');
  const sources = Object.entries(headers).map(([name, it]) => {
    try {
      return [name, toSecretSource(it, context)] as const;
    } catch (error) {
      throw new Error(`telemetry.traces.headers.${name}: ${(error as Error).message}`);
    }
  });
  return { ...given, headers: Object.fromEntries(sources) };
}
