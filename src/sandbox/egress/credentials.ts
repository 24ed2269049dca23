/**
 * Puts the secrets of a request in their places, and takes out of the answer what the server sends back of them. Runs
 * in the egress process, so that nothing behind it sees either.
 */
import { KnownValues } from '../../base/redact/known-values.ts';
import type { Credential, HttpRequest } from './messages.ts';
import type { HttpAnswer } from './proxy-messages.ts';

/** The request with its secrets in their places. */
export function withCredentials({ credentials = [], ...asked }: HttpRequest): HttpRequest {
  const url = new URL(asked.url);
  const headers: Record<string, string> = { ...asked.headers };
  for (const { in: place, name, value } of credentials) {
    if (place === 'query') url.searchParams.set(name, value);
    // A function gives the value, because `$&` in a replacement text stands for the replaced text.
    else if (place === 'path') url.pathname = url.pathname.replace(name, () => value.replace(/^\/+/, ''));
    else headers[name] = value;
  }
  return { ...asked, headers, url: credentials.some((it) => it.in !== 'header') ? url.href : asked.url };
}

/** The answer without the secrets of its request, in any of the forms in which servers repeat what they were sent. */
export function withoutCredentials(answer: HttpAnswer, credentials: readonly Credential[] = []): HttpAnswer {
  if (credentials.length === 0) return answer;
  const known = new KnownValues(credentials.flatMap(({ secret, value }) => [secret, value]));
  if (!('body' in answer)) return known.hideAll(answer) as HttpAnswer;
  const headers = known.hideAll(answer.headers) as Record<string, string>;
  return { ...answer, headers, body: known.hideIn(Buffer.from(answer.body), { isCut: answer.truncated }) };
}
