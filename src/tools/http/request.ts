import * as z from 'zod';
import { ToolError } from '../../errors.ts';
import { defaultLimits } from '../../limits.ts';
import { destinationOf } from '../context/requests.ts';
import { defineTool } from '../tool.ts';

const { httpBodyBytesMax } = defaultLimits;
const MIB = 1024 * 1024;

/** Headers that concern the connection, or could split one request into two. */
const OURS =
  /^(host|connection|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade|content-length|accept-encoding|expect)$/i;

const url = z
  .string()
  .max(8192)
  .refine((it) => /^https?:$/.test(URL.parse(it)?.protocol ?? ''), 'takes an http:// or https:// URL')
  .refine(
    (it) => `${URL.parse(it)?.username ?? ''}${URL.parse(it)?.password ?? ''}` === '',
    'holds no name or password; send them as a header',
  )
  .describe('URL with http:// or https://.');

export default defineTool({
  name: 'http_request',
  title: 'Make an HTTP request',
  summary:
    'Make one HTTP request to a host that the policy lists (tiers.external_api.network) and give the answer, whatever its status is. ' +
    `Redirections are not followed: ask again for what the location header says. A body over ${httpBodyBytesMax / MIB} MiB is cut.`,
  version: '1.0.0',
  capabilities: [{ action: 'request', description: 'Makes one HTTP request to a host that the policy lists.' }],
  category: 'api',
  tier: 'external_api',
  connects: true,
  destructive: true,
  isExtra: true,
  effects: (input) => [{ kind: 'connect', target: destinationOf(input.url) }],
  input: z.strictObject({
    url,
    method: z.enum(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE']).default('GET').describe('HTTP method.'),
    headers: z
      .record(
        z
          .string()
          .regex(/^[A-Za-z0-9!#$%&'*+.^_|~-]{1,128}$/)
          .refine((it) => !OURS.test(it), 'is set by Ringfence'),
        z
          .string()
          .max(8192)
          .regex(/^[\t\x20-\x7e]*$/, 'takes printable ASCII'),
      )
      .default({})
      .refine((it) => Object.keys(it).length <= 64, 'must hold at most 64 headers')
      .describe('Headers of the request.'),
    body: z.string().max(MIB).optional().describe('Body of the request, sent as UTF-8.'),
  }),
  output: z.strictObject({
    status: z.int(),
    headers: z
      .record(z.string(), z.string())
      .describe('Names in lower case; values of repeated ones joined by commas.'),
    body: z.string(),
    encoding: z.enum(['utf-8', 'base64']).describe('Encoding of body; base64 if it is not UTF-8.'),
    truncated: z.boolean().describe('Whether the body was cut.'),
  }),
  examples: [
    // The policy of the examples lists no host.
    { input: { url: 'https://example.org/' }, error: 'POLICY_DENIED' },
    { input: { url: 'file:///etc/passwd' }, error: 'INPUT_INVALID' },
    { input: { url: 'https://:secret@example.org/' }, error: 'INPUT_INVALID' },
  ],
  aliases: [],

  run() {
    throw new ToolError('INTERNAL', 'requests are made by the egress process only');
  },
});
