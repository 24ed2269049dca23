/** Frames, MessagePack and JSON of our own protocol. */
import { isDeepStrictEqual } from 'node:util';
import { Unpackr } from 'msgpackr';
import { RpcError } from '../../src/base/errors.ts';
import { defaultLimits } from '../../src/base/limits.ts';
import { parseJson } from '../../src/base/text/json.ts';
import { decode, encode } from '../../src/wire/protocol/codec.ts';
import { encodeFrame, FrameReader } from '../../src/wire/protocol/frame.ts';
import { decodeJson, encodeJson } from '../../src/wire/protocol/json.ts';
import { holds, shapeOfMessage, shapeOfValue } from './outcome.ts';
import type { FuzzTarget } from './targets.ts';

/** Small, so that inputs of ordinary length reach it. */
const FRAME_BYTES_MAX = 600;

/** Bounds that inputs of ordinary length reach. */
const limits = { ...defaultLimits, messageDepthMax: 12, messageElementsMax: 400 };
const unpackr = new Unpackr({ useRecords: false });

const MESSAGES = [
  { jsonrpc: '2.0', id: 1, method: 'tools.call', params: { tool: 'file_read', input: { path: 'a/b.ts', limit: -3 } } },
  { id: 2, result: [null, true, 1.5, 2 ** 40, -(2 ** 33), 'é'.repeat(40), Buffer.from([0, 255]), { '': {} }] },
  [[[[[[1, [2, ['x'.repeat(300)]]]]]]], Number.MAX_SAFE_INTEGER, -200, -70_000, 'a\u{1f600}'],
];

/** The payloads read from `stream` in pieces of `size` bytes, and the refusal that ended it. */
function readFrames(stream: Buffer, size: number): { payloads: string[]; refusal: string; partialBytes: number } {
  const reader = new FrameReader(FRAME_BYTES_MAX, 16);
  const payloads: string[] = [];
  for (let at = 0; at < stream.length; at += size) {
    try {
      const piece = Buffer.from(stream.subarray(at, at + size));
      for (const it of reader.push(piece)) {
        payloads.push(it.toString('latin1'));
        reader.giveBack(it);
      }
    } catch (error) {
      if (!(error instanceof RpcError) || error.code !== 'FRAME_TOO_LARGE') throw error;
      return { payloads, refusal: error.code, partialBytes: reader.partialBytes };
    }
    holds(reader.partialBytes <= FRAME_BYTES_MAX + 4, 'a reader holds at most one frame');
    holds(reader.pending === reader.partialBytes > 0, 'a reader is pending while it holds bytes');
  }
  return { payloads, refusal: '', partialBytes: reader.partialBytes };
}

/** The reason of a refusal; rethrows anything but RpcError PARSE. */
function reasonOf(error: unknown): string {
  if (!(error instanceof RpcError) || error.code !== 'PARSE') throw error;
  return error.message;
}

/** Values as msgpackr reads them, with its bigints as numbers and objects without a prototype, as ours. */
function likeOurs(value: unknown): unknown {
  if (typeof value === 'bigint') return Number(value);
  if (Array.isArray(value)) return value.map(likeOurs);
  if (typeof value !== 'object' || value === null || value instanceof Uint8Array) return value;
  const members = Object.entries(value).map(([name, member]) => [name, likeOurs(member)] as const);
  return Object.assign(Object.create(null), Object.fromEntries(members));
}

const PARSES_OF_JSON_ONLY =
  /elements|deep|duplicate key|an integer that a double|half a surrogate|beyond a double|a number of more/;

export const binaryTargets: Record<string, FuzzTarget> = {
  frames: {
    seeds: [
      Buffer.concat([
        Buffer.from([3]),
        ...['', 'a', 'hello', 'x'.repeat(90)].map((it) => encodeFrame(Buffer.from(it), 99)),
      ]),
      Buffer.from([1, 0, 0, 2, 88, 0, 0, 2, 89]),
    ],
    words: ['\0\0\0\0', '\0\0\0\x01', '\0\0\x02\x58'],
    run(input) {
      const stream = input.subarray(1);
      const whole = readFrames(stream, 1);
      const cut = readFrames(stream, 1 + (input[0] ?? 0));
      holds(whole.refusal === cut.refusal, 'a stream is refused however it is cut');
      // Payloads before a refusal in the same chunk are lost with the connection.
      const seen = whole.refusal ? whole.payloads.slice(0, cut.payloads.length) : whole.payloads;
      holds(isDeepStrictEqual(seen, cut.payloads), 'a stream has the same payloads however it is cut');
      if (!whole.refusal) holds(whole.partialBytes === cut.partialBytes, 'the rest is the same however it is cut');
      return `${Math.min(whole.payloads.length, 4)} ${whole.refusal} ${whole.partialBytes > 0}`;
    },
  },
  codec: {
    seeds: MESSAGES.map((it) => encode(it)),
    words: ['\x81', '\x91', '\xa1', '\xdd\0\0\0', '\xcf\0\x20\0\0\0\0\0\0', '__proto__'],
    run(input) {
      let value: unknown;
      try {
        value = decode(input, limits);
      } catch (error) {
        return shapeOfMessage(reasonOf(error));
      }
      const bytes = encode(value);
      holds(encode(decode(bytes, limits)).equals(bytes), 'a message that was read is written and read as the same');
      if (!input.includes('__proto__'))
        holds(isDeepStrictEqual(likeOurs(value), likeOurs(unpackr.unpack(input))), 'msgpackr reads the same message');
      return shapeOfValue(value);
    },
  },
  json: {
    seeds: [
      ...MESSAGES.map((it) => encodeJson(it)),
      '{"a":[1e5,-0.5,"\\u00e9\\n",null,true,false,{"b\\\\":{}}]}',
      ' [ ] ',
    ],
    words: [
      '{',
      '}',
      '[',
      ']',
      ',',
      ':',
      '"',
      '\\u',
      '\\ud800',
      '1e308',
      '-0',
      'null',
      '"__proto__":',
      '9007199254740993',
    ],
    run(input) {
      const text = input.toString();
      let theirs: { readonly value: unknown } | undefined;
      try {
        theirs = { value: parseJson(text) };
      } catch (error) {
        if (!(error instanceof SyntaxError)) throw error;
      }
      let ours: unknown;
      try {
        ours = decodeJson(input, limits);
      } catch (error) {
        const reason = reasonOf(error);
        const isAllowed = !theirs || PARSES_OF_JSON_ONLY.test(reason) || reason.endsWith('invalid UTF-8');
        holds(isAllowed, `what JSON.parse reads is refused for a bound only, not: ${reason}`);
        return shapeOfMessage(reason);
      }
      holds(theirs !== undefined, 'what is accepted is JSON');
      holds(JSON.stringify(ours) === JSON.stringify(theirs.value), 'JSON.parse reads the same message');
      holds(encodeJson(decodeJson(encodeJson(ours), limits)).equals(encodeJson(ours)), 'what is written is read again');
      return shapeOfValue(ours);
    },
  },
};
