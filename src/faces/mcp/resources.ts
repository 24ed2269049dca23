/** Kept output of calls as MCP resources. */
import { isUtf8 } from 'node:buffer';
import type { ReadResourceResult, ResourceTemplateType } from '@modelcontextprotocol/server';
import { RpcError } from '../../base/errors.ts';
import { withoutHalfEnd, withoutHalfStart } from '../../base/text/half-characters.ts';
import { BEGIN_CHARS_MAX, envelopeAt } from '../../wire/protocol/envelope.ts';
import { uriOf } from './map.ts';
import type { McpSession } from './session.ts';

export const RESULT_TEMPLATE = {
  uriTemplate: `${uriOf('{ref}')}{?offset,limit}`,
  name: 'result',
  title: 'Output of a call',
  description:
    'All of an output that a result was too short for, kept for an hour. `offset` and `limit` are bytes; 65536 are read unless said.',
  mimeType: 'text/plain',
} satisfies ResourceTemplateType;

const URI = /^ringfence:\/\/result\/([\w-]{1,128})$/;
const NUMBER = /^\d{1,15}$/;

/** Answers `resources/read`. Throws RpcError INVALID_PARAMS. */
export async function readResource(uri: string, session: McpSession): Promise<ReadResourceResult> {
  const [path = '', query = ''] = uri.split('?', 2);
  const ref = URI.exec(path)?.[1];
  const unknown = new RpcError('INVALID_PARAMS', `there is no resource ${uri.slice(0, 256)}`, {
    uri: uri.slice(0, 4096),
  });
  if (ref === undefined) throw unknown;
  const range = rangeOf(query);
  const page = await session.read({ ref, ...range }).catch((error: unknown) => {
    if (error instanceof RpcError) throw new RpcError('INVALID_PARAMS', error.message, { uri });
    throw error;
  });
  const { offset = 0 } = range;
  const { bytesTotal, eof } = page;
  const { data, from } = wholeCharacters(page.data, eof);
  const next = offset + from + data.length;
  const meta = { offset: offset + from, bytesTotal, ...(!eof && { next: `${uriOf(ref)}?offset=${next}` }) };
  const envelope = await envelopeOf(ref, page.data, { offset, session });
  const text = isUtf8(data)
    ? { text: envelope ? part(data.toString(), envelope, { isFirst: offset === 0, isLast: eof }) : data.toString() }
    : { blob: data.toString('base64') };
  const mimeType = 'text' in text ? 'text/plain' : 'application/octet-stream';
  return { contents: [{ uri, mimeType, ...text, _meta: { 'ringfence/range': meta } }] };
}

type OuterEnvelope = NonNullable<ReturnType<typeof envelopeAt>>;

/** The envelope of a kept text that strangers wrote, which is at its beginning. */
async function envelopeOf(
  ref: string,
  page: Uint8Array,
  { offset, session }: { offset: number; session: McpSession },
): Promise<OuterEnvelope | undefined> {
  const isWhole = offset === 0 && page.length >= BEGIN_CHARS_MAX;
  const start = isWhole ? page : (await session.read({ ref, offset: 0, limit: BEGIN_CHARS_MAX })).data;
  return envelopeAt(Buffer.from(start).toString());
}

/** A part of such a text, in the envelope of the whole. */
const part = (
  text: string,
  { begin, end }: OuterEnvelope,
  { isFirst, isLast }: { isFirst: boolean; isLast: boolean },
): string => `${isFirst ? '' : `${begin}\n`}${text}${isLast ? '' : `\n${end}`}`;

/** Parses offset and limit. Throws RpcError INVALID_PARAMS for anything else. */
function rangeOf(query: string): { offset?: number; limit?: number } {
  const params = new URLSearchParams(query);
  const range: Record<string, number> = {};
  for (const [name, value] of params) {
    if ((name !== 'offset' && name !== 'limit') || !NUMBER.test(value))
      throw new RpcError(
        'INVALID_PARAMS',
        `?${name}=${value.slice(0, 32)} is not a range; give offset and limit as numbers of bytes`,
      );
    range[name] = Number(value);
  }
  return range;
}

/** Removes incomplete characters at both ends of a page, if the page is text. */
function wholeCharacters(page: Uint8Array, eof: boolean): { data: Buffer; from: number } {
  const all = Buffer.from(page.buffer, page.byteOffset, page.length);
  const begun = withoutHalfStart(all);
  const cut = eof ? begun : withoutHalfEnd(begun);
  // A page with nothing but a part of a character is given as it is, so that a reader gets on.
  const isText = isUtf8(cut) && (cut.length > 0 || begun.length === 0);
  return isText ? { data: cut, from: all.length - begun.length } : { data: all, from: 0 };
}
