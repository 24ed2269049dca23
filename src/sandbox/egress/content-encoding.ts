/** Undoes the compression of an HTTP answer, within bounds that a hostile server can't exceed. */
import type { IncomingMessage } from 'node:http';
import { pipeline, type Transform } from 'node:stream';
import {
  constants,
  createBrotliDecompress,
  createGunzip,
  createInflate,
  createInflateRaw,
  createZstdDecompress,
} from 'node:zlib';
import type { Limits } from '../../base/limits.ts';

type Decoder = Transform & { readonly bytesWritten: number };

/** RFC 9659: a window of at most 8 MiB. Node's default of 128 MiB would be allocated for each answer that asks for it. */
const ZSTD_WINDOW_LOG_MAX = 23;

const DECODERS: Readonly<Record<string, (first: number) => Decoder>> = {
  gzip: () => createGunzip(),
  'x-gzip': () => createGunzip(),
  br: () => createBrotliDecompress(),
  zstd: () => createZstdDecompress({ params: { [constants.ZSTD_d_windowLogMax]: ZSTD_WINDOW_LOG_MAX } }),
  // RFC 9110 means zlib's format, whose first byte ends in 8; some servers send the bare format.
  deflate: (first) => ((first & 0x0f) === 8 ? createInflate() : createInflateRaw()),
};

/** The body as it was before its compression, and the names of the headers that hold no longer. */
interface DecodedBody {
  readonly body: AsyncIterable<Uint8Array>;
  readonly removed: readonly string[];
}

/**
 * Undoes one compression; an answer with several, or an unknown one, is given as it came, with its header. Iterating
 * throws if the compression is broken, or if the body grows as only an attack does.
 */
export function decoded(
  incoming: IncomingMessage,
  bytesMax: number,
  limits: Pick<Limits, 'httpInflateFreeBytes' | 'httpInflateRatioMax'>,
): DecodedBody {
  const coding = (incoming.headers['content-encoding'] ?? '').trim().toLowerCase();
  const toDecoder = Object.hasOwn(DECODERS, coding) ? DECODERS[coding] : undefined;
  if (!toDecoder) return { body: incoming as AsyncIterable<Uint8Array>, removed: [] };
  const body = inflated(incoming, toDecoder, { coding, bytesMax, ...limits });
  return { body, removed: ['content-encoding', 'content-length'] };
}

interface InflateBounds extends Pick<Limits, 'httpInflateFreeBytes' | 'httpInflateRatioMax'> {
  readonly coding: string;
  readonly bytesMax: number;
}

async function* inflated(
  incoming: IncomingMessage,
  toDecoder: (first: number) => Decoder,
  { coding, bytesMax, httpInflateFreeBytes, httpInflateRatioMax }: InflateBounds,
): AsyncGenerator<Uint8Array> {
  const pieces = (incoming as AsyncIterable<Uint8Array>)[Symbol.asyncIterator]() as AsyncIterableIterator<Uint8Array>;
  const { value: first, done } = (await pieces.next()) as IteratorResult<Uint8Array, undefined>;
  // HEAD, 204, 304: the header tells of a body that did not come.
  if (done) return;
  const decoder = toDecoder(first[0] as number);
  // The callback gets the errors that iterating the decoder throws as well.
  pipeline(
    () => compressed(first, pieces, 2 * bytesMax),
    decoder,
    () => {},
  );
  let bytes = 0;
  try {
    for await (const piece of decoder as AsyncIterable<Uint8Array>) {
      bytes += piece.length;
      if (bytes > httpInflateFreeBytes && bytes > httpInflateRatioMax * decoder.bytesWritten)
        throw new Error(`the ${coding} body grows more than ${httpInflateRatioMax}-fold, as only an attack does`);
      yield piece;
    }
  } catch (error) {
    const { code = '', message } = error as NodeJS.ErrnoException;
    throw OF_DECODER.test(code) ? new Error(`the ${coding} body is broken: ${message}`) : error;
  }
}

/** Bounds the compressed bytes by themselves: input without output, such as empty gzip members, could go on forever. */
async function* compressed(
  first: Uint8Array,
  rest: AsyncIterable<Uint8Array>,
  bytesMax: number,
): AsyncGenerator<Uint8Array> {
  let bytes = first.length;
  yield first;
  for await (const piece of rest) {
    bytes += piece.length;
    if (bytes > bytesMax) throw new Error(`the server sent more than ${bytesMax} compressed bytes`);
    yield piece;
  }
}

/** Codes of zlib begin with Z, those of zstd with ZSTD, those of brotli with ERR_. */
const OF_DECODER = /^Z|^ERR_(_|BROTLI|ZSTD)/;
