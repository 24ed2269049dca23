/** Abbreviated ids: any unambiguous beginning or end of an id is accepted. */
import type { Client } from '../client/client.ts';
import { harmless, UsageError } from './output.ts';

const WHOLE = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** The end of an id, for tables: ids begin with the time, so ids of one minute have the same beginning. */
export const shortId = (id: string): string => (WHOLE.test(id) ? id.slice(-8) : id);

/** The call id that `text` abbreviates; `text` itself if no call matches. Throws UsageError if it is ambiguous. */
export async function callIdOf(text: string, client: Pick<Client, 'request'>): Promise<string> {
  if (WHOLE.test(text)) return text;
  const { calls } = await client.request('calls.find', { id: text });
  return theOne(
    text,
    calls.map(({ callId }) => callId),
  );
}

/** The one of `ids` that `text` abbreviates; `text` itself if none matches. Throws UsageError if it is ambiguous. */
export function idOf(text: string, ids: readonly string[]): string {
  if (ids.includes(text)) return text;
  return theOne(
    text,
    ids.filter((it) => it.startsWith(text) || it.endsWith(text)),
  );
}

function theOne(text: string, found: readonly string[]): string {
  const ids = [...new Set(found)];
  if (ids.length > 1)
    throw new UsageError(
      `${harmless(text)} matches more than one id; write more of the one you mean:\n  ${ids.map(harmless).join('\n  ')}`,
    );
  return ids[0] ?? text;
}
