/** The parameters of tools that send a request of the caller's own making. */
import * as z from 'zod';
import { defaultLimits } from '../../base/limits.ts';
import { headerName } from '../../base/text/header-name.ts';

const { httpRedirectsMax, callTimeoutMs } = defaultLimits;
export const BODY_CHARS_MAX = 1024 * 1024;

export const wholeTimeMs = z
  .int()
  .min(1)
  .max(callTimeoutMs.external_api)
  .describe('Time for the whole answer, in milliseconds.');

/** A body that may be any value: text as it is, the rest as JSON. */
export const anyBody = z
  .unknown()
  .optional()
  .refine(
    (it) => it === undefined || JSON.stringify(it).length <= BODY_CHARS_MAX,
    `must have at most ${BODY_CHARS_MAX} characters as JSON`,
  );

/** The names by which policies know the tool that sends requests of any kind. */
export const HTTP_NAMES = ['http_request', 'rest_api_call', 'api_call'] as const;

export const sentParameters = {
  method: z.enum(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE']).default('GET').describe('HTTP method.'),
  headers: z
    .record(
      headerName,
      z
        .string()
        .max(8192)
        .regex(/^[\t\x20-\x7e]*$/, 'takes printable ASCII'),
    )
    .default({})
    .refine((it) => Object.keys(it).length <= 64, 'must hold at most 64 headers')
    .describe('Headers of the request.'),
  followRedirects: z
    .boolean()
    .default(true)
    .describe(`Whether to follow redirects, at most ${httpRedirectsMax}; false gives the redirect itself.`),
};

/** The body and headers of a request that sends a value as JSON. */
export function sentAsJson(value: unknown, headers: Readonly<Record<string, string>>) {
  const hasType = Object.keys(headers).some((it) => it.toLowerCase() === 'content-type');
  const typed = hasType ? headers : { ...headers, 'content-type': 'application/json' };
  return { headers: typed, body: JSON.stringify(value) };
}

/** Whether a request may be sent again: a server may have done what the others ask for, although its answer was lost (RFC 9110, section 9.2.2). */
export const isRepeatable = ({ method }: { readonly method: string }): boolean =>
  method !== 'POST' && method !== 'PATCH';
