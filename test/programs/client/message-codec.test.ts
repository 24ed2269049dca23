/** The client's codec and the daemon's mean the same by every message. */
import { createServer } from 'node:net';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { defaultLimits } from '../../../src/base/limits.ts';
import { createClient } from '../../../src/client/client.ts';
import { messageCodec } from '../../../src/client/message-codec.ts';
import { decode, encode } from '../../../src/wire/protocol/codec.ts';
import { encodeFrame } from '../../../src/wire/protocol/frame.ts';
import { removeTree, temporaryDir } from '../../support/daemon.ts';

const text = fc.oneof(fc.string({ unit: 'grapheme', maxLength: 80 }), fc.string({ unit: 'binary', maxLength: 80 }));
/** Keys that are ordinary on the wire but special in JavaScript objects, or to msgpackr. */
const key = fc.oneof(
  text,
  fc.constantFrom('__proto__', '__proto_', 'constructor', 'toString', 'hasOwnProperty', 'toJSON', '0', '-1'),
);
const number = fc.oneof(fc.maxSafeInteger(), fc.double(), fc.integer({ min: -200, max: 200 }));
const bytes = fc.uint8Array({ maxLength: 300 });
const { tree: plain } = fc.letrec((tie) => ({
  tree: fc.oneof(
    { maxDepth: 6 },
    fc.constantFrom(null, true, false, undefined),
    ...[number, text, bytes, tie('array'), tie('map')],
  ),
  array: fc.array(tie('tree'), { maxLength: 20 }),
  map: fc.dictionary(key, tie('tree'), { maxKeys: 20, noNullPrototype: false }),
}));

const ours = (payload: Uint8Array): unknown => decode(payload, defaultLimits);

/** One notation for values that differ only in prototypes, the sign of zero or the class of their bytes. */
function normal(value: unknown): unknown {
  if (typeof value === 'number') return value === 0 ? 0 : value;
  if (value instanceof Uint8Array) return { bin: Buffer.from(value).toString('hex') };
  if (Array.isArray(value)) return value.map(normal);
  if (typeof value !== 'object' || value === null) return value;
  return { map: Object.entries(value).map(([name, member]) => [name, normal(member)]) };
}

const holds = (law: (value: unknown) => void): void =>
  fc.assert(
    fc.property(plain, (value) => {
      law(value);
    }),
    { numRuns: 500 },
  );

describe('round trips', () => {
  test('the daemon reads of the client what it would read of itself', () => {
    holds((value) => expect(normal(ours(messageCodec.encode(value)))).toEqual(normal(ours(encode(value)))));
  });

  test('the client reads of the daemon what the daemon would read', () => {
    holds((value) => expect(normal(messageCodec.decode(encode(value)))).toEqual(normal(ours(encode(value)))));
  });

  test('the client reads of itself what the daemon reads of it', () => {
    holds((value) => {
      const sent = messageCodec.encode(value);
      expect(normal(messageCodec.decode(Buffer.from(sent)))).toEqual(normal(ours(sent)));
    });
  });
});

const cycle: unknown[] = [];
cycle.push(cycle);
test.each([
  ['a date', new Date(0)],
  ['a map', new Map()],
  ['a set', new Set()],
  ['an error', new Error('e')],
  ['a bigint', 1n],
  ['a function', () => 1],
  ['a symbol', Symbol('s')],
  ['numbers of two bytes', new Uint16Array(2)],
  ['a cycle', cycle],
])('neither codec sends %s', (_, value) => {
  for (const send of [encode, messageCodec.encode])
    expect(() => send({ value })).toThrow(value === cycle ? RangeError : TypeError);
});

const hex = (digits: string): Buffer => Buffer.from(digits.replaceAll(' ', ''), 'hex');
const MALFORMED: readonly (readonly [string, string])[] = [
  ['nothing', ''],
  ['an array that ends early', '93 01 02'],
  ['a string that ends early', 'a5 61'],
  ['a byte after the message', 'c0 c0'],
  ['the byte that MessagePack leaves out', 'c1'],
  ['a map with a number as a key', '81 01 c0'],
  ['a time', 'd6 ff 00000000'],
  ['msgpackr undefined', 'd4 00 00'],
  ['an extension of nobody', 'd4 2a 00'],
  ['an integer that no double holds', 'cf ffffffffffffffff'],
  ['arrays nested 300 deep', `${'91'.repeat(300)}c0`],
];

test.each(MALFORMED)('neither codec accepts %s', (_, digits) => {
  const refused = expect.objectContaining({ code: 'PARSE' });
  for (const read of [ours, messageCodec.decode]) expect(() => read(hex(digits))).toThrow(refused);
});

test('random bytes are decoded or refused with PARSE, never anything else', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 64 }), (random) => {
      try {
        messageCodec.decode(Buffer.from(random));
      } catch (error) {
        expect(error).toMatchObject({ name: 'RpcError', code: 'PARSE' });
      }
    }),
    { numRuns: 2000 },
  );
});

test('a client whose daemon answers with a malformed frame says so', async () => {
  const folder = temporaryDir('malformed');
  const socket = join(folder, 's');
  const server = createServer((it) =>
    it.on('error', () => {}).once('data', () => it.write(encodeFrame(hex('93 01'), 99))),
  );
  try {
    await new Promise<void>((resolve) => server.listen(socket, resolve));
    await expect(createClient({ socket })).rejects.toThrow(/the connection was closed: not an acceptable message: /);
  } finally {
    await new Promise((resolve) => server.close(resolve));
    removeTree(folder);
  }
});
