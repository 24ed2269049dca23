/**
 * Puts the secrets of a request in their places, and takes out of the answer what the server sends back of them. Runs
 * in the egress process, so that nothing behind it sees either.
 */
import { hideValues } from '../redact/known-values.ts';
import type { Credential, HttpAnswer, HttpRequest } from './messages.ts';

/** The request with its secrets in their places. */
export function withCredentials({ credentials = [], ...asked }: HttpRequest): HttpRequest {
  const url = new URL(asked.url);
  const headers: Record<string, string> = { ...asked.headers };
  for (const { in: place, name, value } of credentials) {
    if (place === 'query') url.searchParams.set(name, value);
    else if (place === 'path')
      url.pathname = url.pathname.replace(/%7Bsecret%7D|\{secret\}/, value.replace(/^\/+/, ''));
    else headers[name] = value;
  }
  return { ...asked, headers, url: credentials.some((it) => it.in !== 'header') ? url.href : asked.url };
}

/** The answer without the secrets of its request, in any of the forms in which servers repeat what they were sent. */
export function withoutCredentials(answer: HttpAnswer, credentials: readonly Credential[] = []): HttpAnswer {
  if (credentials.length === 0) return answer;
  const values = [...new Set(credentials.flatMap(({ secret, value }) => [secret, value]))];
  const hide = (text: string) => hideValues(Buffer.from(text), values).toString();
  if ('refused' in answer) return { refused: hide(answer.refused) };
  if ('failed' in answer) return { failed: hide(answer.failed) };
  if ('late' in answer) return answer;
  const headers = Object.entries(answer.headers).map(([name, value]) => [hide(name), hide(value)]);
  return {
    ...answer,
    headers: Object.fromEntries(headers) as Record<string, string>,
    body: hideValues(Buffer.from(answer.body), values, { isCut: answer.truncated }),
  };
}
