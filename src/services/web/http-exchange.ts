/** Follows an HTTP request over redirects to its final answer. What one request may reach is judged by whoever sends it. */

import { ToolError } from '../../base/errors.ts';
import type { HttpRequest } from '../../sandbox/egress/messages.ts';
import type { HttpAnswer, HttpResponse } from '../../sandbox/egress/proxy-messages.ts';
import { destinationOf, type WebRequest } from '../../tools/context/requests.ts';

export interface ExchangeRequest extends Omit<WebRequest, 'body'>, Pick<HttpRequest, 'body' | 'bytesMax'> {
  /**
   * Whether an answer that the principal's web cache keeps may be given, or replaced by a new one. Only for what a person
   * could see in a browser of their own: requests without other headers than FOR_ANY_ORIGIN. Absent: the cache is not used.
   */
  readonly cache?: 'use' | 'renew';
}

export interface HopResponse extends HttpResponse {
  /** Whether the body came from the cache: without asking the server, or after it said that nothing changed. */
  readonly cached: 'no' | 'fresh' | 'revalidated';
}

export interface Exchange extends HopResponse {
  /** URL that gave the answer, without a fragment. */
  readonly finalUrl: string;
}

/** One request of an exchange, without its bounds. */
export type Hop = Pick<HttpRequest, 'url' | 'method' | 'headers' | 'body'>;

/**
 * Sends the request, and one more for each redirect that is followed. Throws UPSTREAM_FAILED for a redirect that can't
 * be followed, and what `send` throws.
 */
export async function exchange(
  request: ExchangeRequest,
  { redirectsMax, send }: { redirectsMax: number; send(hop: Hop): Promise<HopResponse> },
): Promise<Exchange> {
  const { url, method, headers, body } = request;
  let hop: Hop = { url: withoutFragment(url), method, headers, body };
  for (let redirects = 0; ; redirects += 1) {
    const response = await send(hop);
    const location = response.headers.location;
    if (!request.followRedirects || location === undefined || !REDIRECTS.includes(response.status))
      return { ...response, finalUrl: hop.url };
    if (redirects === redirectsMax)
      throw notFollowed(url, `redirects more than ${redirectsMax} times, lately to ${location}`);
    hop = nextHop(hop, response.status, location);
  }
}

const REDIRECTS: readonly number[] = [301, 302, 303, 307, 308];

/**
 * Headers that another origin may get. A list of those that it must not get would miss the next service's name for an
 * API key.
 */
export const FOR_ANY_ORIGIN: readonly string[] = ['accept', 'accept-language', 'user-agent'];

/** The request by which a redirect is followed, as fetch does it, but with no body for another origin. Throws UPSTREAM_FAILED. */
function nextHop({ url, method, headers, body }: Hop, status: number, location: string): Hop {
  const from = new URL(url);
  const to = URL.parse(location, from);
  if (!to || (to.protocol !== 'http:' && to.protocol !== 'https:'))
    throw notFollowed(url, `redirects to ${location}, which is no http:// or https:// URL`);
  if (from.protocol === 'https:' && to.protocol === 'http:')
    throw notFollowed(url, `redirects from https to ${location}, where anybody on the way could read along`);
  const isPost = method === 'POST' && (status === 301 || status === 302);
  const becomesGet = isPost || (status === 303 && method !== 'HEAD');
  const isSameOrigin = from.origin === to.origin;
  const keepsBody = isSameOrigin && !becomesGet;
  const kept = Object.entries(headers).filter(([name]) => {
    const lower = name.toLowerCase();
    return isSameOrigin ? keepsBody || !lower.startsWith('content-') : FOR_ANY_ORIGIN.includes(lower);
  });
  to.username = '';
  to.password = '';
  return {
    url: withoutFragment(to.href),
    method: becomesGet ? 'GET' : method,
    headers: Object.fromEntries(kept),
    body: keepsBody ? body : undefined,
  };
}

/** The error for an answer that never came, or a redirect that is not followed. */
function notFollowed(url: string, why: string): ToolError {
  return new ToolError('UPSTREAM_FAILED', shown(`${destinationOf(url)} ${why}`), {
    suggestion: 'Set followRedirects to false to get the redirect itself.',
  });
}

function withoutFragment(text: string): string {
  const url = new URL(text);
  url.hash = '';
  return url.href;
}

const RULE = 'tiers.external_api.network';

/** The response, if there is one. Throws POLICY_DENIED, TIMEOUT, UPSTREAM_FAILED. */
export function assertResponse(answer: HttpAnswer, url: string): HttpResponse {
  if ('status' in answer) return answer;
  const target = destinationOf(url);
  if ('refused' in answer) throw unlisted(target, answer.refused);
  if ('late' in answer)
    throw new ToolError('TIMEOUT', `${target} was not done in time: ${answer.late}`, {
      suggestion: 'Ask for less, or set a longer timeout.',
    });
  throw new ToolError('UPSTREAM_FAILED', shown(`${target} gave no answer: ${answer.failed}`));
}

/** The error for a destination that the network list of the policy does not hold. */
export function unlisted(target: string, why: string): ToolError {
  return new ToolError('POLICY_DENIED', shown(`connecting to \`${target}\` is refused: ${why}`), {
    rule: RULE,
    suggestion: `Ask the person to add \`${target}\` to ${RULE}.allow in the policy.`,
    details: { decision: 'deny' },
  });
}

/** Servers choose some of the words of errors. */
const SHOWN_CHARS = 500;
const shown = (text: string): string => text.slice(0, SHOWN_CHARS).toWellFormed();

/** Statuses of a server that may serve the same request later (RFC 9110, RFC 6585). */
const BUSY: readonly number[] = [429, 502, 503, 504];

/** How many milliseconds a busy server asks to wait, 0 if it does not say; nothing for all other answers. */
export function busyFacts({ status, headers }: Pick<Exchange, 'status' | 'headers'>, now: number): { busyMs?: number } {
  if (!BUSY.includes(status)) return {};
  const given = headers['retry-after'] ?? '';
  const ms = /^\d{1,6}$/.test(given.trim()) ? Number(given) * 1000 : Date.parse(given) - now;
  return { busyMs: ms > 0 ? ms : 0 };
}
