import fc from 'fast-check';
import { Packr, Unpackr } from 'msgpackr';
import { describe, expect, test } from 'vitest';
import { RpcError } from '../../../src/base/errors.ts';
import { defaultLimits } from '../../../src/base/limits.ts';
import { decode, encode } from '../../../src/wire/protocol/codec.ts';

const packr = new Packr({ useRecords: false });
const unpackr = new Unpackr({ useRecords: false });

const hex = (text: string): Buffer => Buffer.from(text.replaceAll(' ', ''), 'hex');
const read = (bytes: Uint8Array): unknown => decode(bytes, defaultLimits);

/** The message of the PARSE error for `bytes`; fails if there is none. */
function refusalOf(bytes: Uint8Array, limits: Parameters<typeof decode>[1] = defaultLimits): string {
  try {
    decode(bytes, limits);
  } catch (error) {
    expect(error).toBeInstanceOf(RpcError);
    expect((error as RpcError).code).toBe('PARSE');
    return (error as RpcError).message.replace('not an acceptable message: ', '');
  }
  return expect.unreachable(`${Buffer.from(bytes.subarray(0, 20)).toString('hex')} was accepted`);
}

const text = fc.string({ unit: 'grapheme', maxLength: 80 });
/** Keys that are ordinary on the wire but special in JavaScript objects. */
const key = fc.oneof(
  text,
  fc.constantFrom('__proto__', 'constructor', 'toString', 'hasOwnProperty', 'toJSON', '0', '-1'),
);
const number = fc.oneof(fc.maxSafeInteger(), fc.double(), fc.integer({ min: -200, max: 200 }));
const { tree: plain } = fc.letrec((tie) => ({
  tree: fc.oneof({ maxDepth: 6 }, fc.constantFrom(null, true, false), number, text, bytes(), tie('array'), tie('map')),
  array: fc.array(tie('tree'), { maxLength: 20 }),
  map: fc.dictionary(key, tie('tree'), { maxKeys: 20, noNullPrototype: false }),
}));

function bytes(): fc.Arbitrary<Buffer> {
  return fc.uint8Array({ maxLength: 300 }).map((it) => Buffer.from(it));
}

/** Normalizes prototypes, -0 (an integer on the wire) and classes of bytes. */
function normal(value: unknown): unknown {
  if (typeof value === 'number') return value === 0 ? 0 : value;
  if (value instanceof Uint8Array) return { bin: Buffer.from(value).toString('hex') };
  if (Array.isArray(value)) return value.map(normal);
  if (typeof value !== 'object' || value === null) return value;
  return { map: Object.entries(value).map(([name, member]) => [name, normal(member)]) };
}

/** Values read by msgpackr, with its bigints converted to numbers. */
function unpacked(value: unknown): unknown {
  if (typeof value === 'bigint') return Number(value);
  if (Array.isArray(value)) return value.map(unpacked);
  if (typeof value !== 'object' || value === null || value instanceof Uint8Array) return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, unpacked(member)]));
}

const mentions = (value: unknown, names: RegExp): boolean => names.test(JSON.stringify(normal(value)));

describe('round trips', () => {
  const holds = (values: fc.Arbitrary<unknown>, law: (value: unknown) => void): void =>
    fc.assert(
      fc.property(values, (value) => {
        law(value);
      }),
      { numRuns: 500 },
    );

  test('any plain value comes back from its own encoding', () => {
    holds(plain, (value) => expect(normal(read(encode(value)))).toEqual(normal(value)));
  });

  test('any plain value that msgpackr encodes is read as it was', () => {
    // msgpackr would call toJSON.
    const packable = plain.filter((value) => !mentions(value, /"toJSON"/));
    holds(packable, (value) => expect(normal(read(packr.pack(value)))).toEqual(normal(value)));
  });

  test('any plain value that we encode is read by msgpackr as it was', () => {
    // msgpackr renames this key.
    const unpackable = plain.filter((value) => !mentions(value, /"__proto__"/));
    holds(unpackable, (value) => expect(normal(unpacked(unpackr.unpack(encode(value))))).toEqual(normal(value)));
  });

  test('encoding what was decoded gives the same bytes', () => {
    holds(plain, (value) => expect(encode(read(encode(value)))).toEqual(encode(value)));
  });

  test('bytes that are random are decoded or refused with PARSE, never anything else', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 64 }), (random) => {
        try {
          read(random);
        } catch (error) {
          expect(error).toMatchObject({ name: 'RpcError', code: 'PARSE' });
        }
      }),
      { numRuns: 2000 },
    );
  });
});

describe('decode', () => {
  test.each([
    ['00', 0],
    ['7f', 127],
    ['e0', -32],
    ['ff', -1],
    ['cc ff', 255],
    ['cd ffff', 65_535],
    ['ce ffffffff', 4_294_967_295],
    ['cf 001fffffffffffff', Number.MAX_SAFE_INTEGER],
    ['cf 0000000100000000', 4_294_967_296],
    ['d0 80', -128],
    ['d1 8000', -32_768],
    ['d2 80000000', -2_147_483_648],
    ['d3 ffe0000000000001', Number.MIN_SAFE_INTEGER],
    ['d3 ffffffffffffffff', -1],
    ['ca 3fc00000', 1.5],
    ['cb 3ff8000000000000', 1.5],
    ['cb 7ff0000000000000', Number.POSITIVE_INFINITY],
    ['cb 7ff8000000000000', Number.NaN],
    ['c0', null],
    ['c2', false],
    ['c3', true],
    ['a0', ''],
    ['a2 c3a9', 'é'],
    ['d9 01 61', 'a'],
    ['da 0001 61', 'a'],
    ['db 00000001 61', 'a'],
    ['a3 efbbbf', '\ufeff'],
    ['a3 efbfbd', '\ufffd'],
    ['90', []],
    ['dc 0001 c0', [null]],
    ['dd 00000001 c0', [null]],
  ])('reads %s as %j', (bytesInHex, value) => {
    expect(read(hex(bytesInHex))).toStrictEqual(value);
  });

  test.each(['c4 02 0102', 'c5 0002 0102', 'c6 00000002 0102'])('reads %s as the two bytes it holds', (bytesInHex) => {
    expect(read(hex(bytesInHex))).toEqual(Buffer.from([1, 2]));
  });

  test.each(['81 a161 01', 'de 0001 d90161 01', 'df 00000001 da000161 01'])(
    'reads %s as a map of one',
    (bytesInHex) => {
      expect(Object.entries(read(hex(bytesInHex)) as object)).toEqual([['a', 1]]);
    },
  );

  test('gives bytes that share memory with the message', () => {
    const message = hex('c4 02 0102');
    const data = read(message) as Buffer;
    message.fill(9);
    expect([...data]).toEqual([9, 9]);
  });

  test('reads a plain Uint8Array that lies inside a larger one', () => {
    expect(read(new Uint8Array([0xff, 0x93, 1, 2, 3, 0xff]).subarray(1, 5))).toEqual([1, 2, 3]);
  });

  test('gives maps without a prototype, in which __proto__ is a key like others', () => {
    const map = read(hex('81 a9 5f5f70726f746f5f5f 81 a1 61 01')) as Record<string, unknown>;
    expect(Object.getPrototypeOf(map)).toBeNull();
    expect(Object.keys(map)).toEqual(['__proto__']);
    expect(Object.getPrototypeOf(Object.getOwnPropertyDescriptor(map, '__proto__')?.value)).toBeNull();
    expect(({} as Record<string, unknown>).a).toBeUndefined();
  });

  test('tells keys apart that fall into one slot of its cache', () => {
    const names = Array.from({ length: 5000 }, (_, i) => `key${i}`);
    for (let round = 0; round < 2; round++) {
      for (const name of names) expect(Object.keys(read(encode({ [name]: 1 })) as object)).toEqual([name]);
    }
  });
});

describe('decode refuses', () => {
  test.each([
    ['nothing at all', '', '1 bytes wanted, 0 left, at byte 0'],
    ['a string that is cut short', 'a2 61', '2 bytes wanted, 1 left, at byte 1'],
    ['a second message behind the first', 'c0 c0', '1 bytes follow the message, at byte 1'],
    ['0xc1, which MessagePack does not have', 'c1', 'type 0xc1, at byte 0'],
    ['0xc1 inside an array', '92 00 c1', 'type 0xc1, at byte 2'],
    ['fixext 1', 'd4 01 00', 'extension type 0xd4, at byte 0'],
    ['msgpackr undefined, which is a fixext', 'd4 00 00', 'extension type 0xd4, at byte 0'],
    ['fixext 2', 'd5 01 0000', 'extension type 0xd5, at byte 0'],
    ['timestamp 32, which is a fixext 4', 'd6 ff 00000000', 'extension type 0xd6, at byte 0'],
    ['timestamp 64, which is a fixext 8', 'd7 ff 0000000000000000', 'extension type 0xd7, at byte 0'],
    ['fixext 16', `d8 01 ${'00'.repeat(16)}`, 'extension type 0xd8, at byte 0'],
    ['timestamp 96, which is an ext 8', `c7 0c ff ${'00'.repeat(12)}`, 'extension type 0xc7, at byte 0'],
    ['ext 16', 'c8 0001 01 00', 'extension type 0xc8, at byte 0'],
    ['ext 32', 'c9 00000001 01 00', 'extension type 0xc9, at byte 0'],
    ['an integer as a key', '81 01 01', 'a map key that is not a string, at byte 1'],
    ['a negative integer as a key', '81 ff 01', 'a map key that is not a string, at byte 1'],
    ['an array 16 as a key', '81 dc 0000 01', 'a map key that is not a string, at byte 1'],
    ['nil as a key', '81 c0 01', 'a map key that is not a string, at byte 1'],
    ['bytes as a key', '81 c4 01 61 01', 'a map key that is not a string, at byte 1'],
    ['an array as a key', '81 90 01', 'a map key that is not a string, at byte 1'],
    ['a key that comes twice', '82 a161 01 a161 02', 'a duplicate key, at byte 4'],
    ['a key that comes twice in two lengths of header', '82 a161 01 d90161 02', 'a duplicate key, at byte 4'],
    ['__proto__ twice', '82 a95f5f70726f746f5f5f 01 a95f5f70726f746f5f5f 02', 'a duplicate key, at byte 12'],
    ['a key that comes twice with nil for a value', '82 a161 c0 a161 c0', 'a duplicate key, at byte 4'],
    ['a lone continuation byte', 'a1 80', 'invalid UTF-8, at byte 1'],
    ['a sequence that ends early', 'a2 61c3', 'invalid UTF-8, at byte 1'],
    ['an overlong slash', 'a2 c0af', 'invalid UTF-8, at byte 1'],
    ['half a surrogate pair', 'a3 eda080', 'invalid UTF-8, at byte 1'],
    ['a code point beyond U+10FFFF', 'a4 f4908080', 'invalid UTF-8, at byte 1'],
    ['invalid UTF-8 beside a true U+FFFD', 'a4 efbfbdff', 'invalid UTF-8, at byte 1'],
    ['invalid UTF-8 in a key', '81 a1ff 01', 'invalid UTF-8, at byte 2'],
    ['invalid UTF-8 at the end of 40 bytes', `d9 28 ${'61'.repeat(39)}ff`, 'invalid UTF-8, at byte 2'],
    ['invalid UTF-8 at the end of 5000 bytes', `da 1388 ${'61'.repeat(4999)}ff`, 'invalid UTF-8, at byte 3'],
    ['uint64 2^53', 'cf 0020000000000000', 'an integer beyond 2^53 - 1, at byte 0'],
    ['the largest uint64', 'cf ffffffffffffffff', 'an integer beyond 2^53 - 1, at byte 0'],
    ['int64 -2^53', 'd3 ffe0000000000000', 'an integer beyond 2^53 - 1, at byte 0'],
    ['the smallest int64', 'd3 8000000000000000', 'an integer beyond 2^53 - 1, at byte 0'],
    ['an array of 2^32 - 1', 'dd ffffffff c0', '4294967295 elements announced, 1 bytes left, at byte 4'],
    ['a map of 2^32 - 1', 'df ffffffff a0', '8589934590 elements announced, 1 bytes left, at byte 4'],
    ['a string of 2^32 - 1 bytes', 'db ffffffff 61', '4294967295 bytes wanted, 1 left, at byte 5'],
    ['bytes of 2^32 - 1', 'c6 ffffffff 00', '4294967295 bytes wanted, 1 left, at byte 5'],
    ['a map with room for its keys only', '82 a0 a0', '4 elements announced, 2 bytes left, at byte 0'],
  ])('decode refuses %s', (_, bytesInHex, reason) => {
    expect(refusalOf(hex(bytesInHex))).toBe(reason);
  });

  test('a valid message cut short at any byte', () => {
    const message = Buffer.concat([
      hex('9a'),
      encode({
        id: 7,
        text: 'é'.repeat(30),
        long: 'x'.repeat(300),
        list: [1, -1, 200, -200, 70_000, -70_000, 2 ** 40, 1.5],
      }),
      encode(Buffer.from('bytes')),
      hex(
        'ca 3fc00000 d3 ffffffffffffffff dc 0001 c0 dd 00000001 c0 de 0001 a0 c0 df 00000001 a0 c0 c5 0001 00 c6 00000001 00',
      ),
    ]);
    expect(read(message)).toHaveLength(10);
    for (let length = 0; length < message.length; length++) refusalOf(message.subarray(0, length));
  });

  test('one level of nesting more than the limit, in arrays and in maps', () => {
    const limits = { messageDepthMax: 3, messageElementsMax: 100 };
    expect(decode(hex('91 91 91 c0'), limits)).toEqual([[[null]]]);
    expect(refusalOf(hex('91 91 91 90'), limits)).toBe('nested more than 3 deep, at byte 3');
    expect(refusalOf(hex('81 a0 81 a0 81 a0 80'), limits)).toBe('nested more than 3 deep, at byte 6');
  });

  test('one value more than the limit, with keys, scalars and containers counted alike', () => {
    const limits = { messageDepthMax: 10, messageElementsMax: 5 };
    // An array, a map, its key, an array, a scalar.
    expect(decode(hex('92 81 a161 90 c0'), limits)).toHaveLength(2);
    expect(refusalOf(hex('92 81 a161 91 c0 c0'), limits)).toBe('more than 5 elements, at byte 4');
    expect(refusalOf(hex('95 c0 c0 c0 c0 c0'), limits)).toBe('more than 5 elements, at byte 0');
  });

  test('100 000 levels of nesting, without running out of stack', () => {
    expect(refusalOf(Buffer.alloc(100_000, 0x91))).toBe('nested more than 64 deep, at byte 64');
    expect(refusalOf(Buffer.from('81a0'.repeat(100_000), 'hex'))).toBe('nested more than 64 deep, at byte 128');
  });

  test('an array of 16 million that is really there, before it is allocated', () => {
    const message = Buffer.alloc(16 * 1024 * 1024, 0xc0);
    message.set(hex('dd 00fffffb'));
    expect(refusalOf(message)).toBe('more than 100000 elements, at byte 4');
  });
});

describe('encode', () => {
  test.each([
    ['a member that is undefined is left out', { a: 1, b: undefined }, '81 a161 01'],
    ['undefined in an array is nil', [undefined], '91 c0'],
    ['a hole in an array is nil', new Array(1), '91 c0'],
    ['undefined alone is nil', undefined, 'c0'],
    ['an integer over 32 bits is an integer', 2 ** 40, 'cf 0000010000000000'],
    ['a negative one too', -(2 ** 40), 'd3 ffffff0000000000'],
    ['-0 is 0', -0, '00'],
    ['NaN is a float', Number.NaN, 'cb 7ff8000000000000'],
    ['an integer over 2^53 is a float', 2 ** 60, 'cb 43b0000000000000'],
    ['half a surrogate pair is U+FFFD', 'a\ud800b', 'a5 61 efbfbd 62'],
    ['half a surrogate pair in a key is U+FFFD', { '\udc00': 1 }, '81 a3 efbfbd 01'],
    ['keys that are one then are the later member', { '\udc00': 1, a: 2, '\ud800': 3 }, '82 a3 efbfbd 03 a1 61 02'],
    ['a Buffer is bin', Buffer.from([1, 2]), 'c4 02 0102'],
    ['a Uint8Array inside a larger one is its own bytes', new Uint8Array([9, 1, 2, 9]).subarray(1, 3), 'c4 02 0102'],
    ['a map without a prototype', Object.assign(Object.create(null), { a: 1 }), '81 a161 01'],
    ['toJSON is a key like others', Object.assign(Object.create(null), { toJSON: 1 }), '81 a6 746f4a534f4e 01'],
    ['constructor is a key like others', { constructor: 'x' }, '81 ab 636f6e7374727563746f72 a178'],
    ['hasOwnProperty is a key like others', { hasOwnProperty: 1 }, '81 ae 6861734f776e50726f7065727479 01'],
    [
      '__proto__ is a key like others',
      JSON.parse('{"__proto__":1099511627776}'),
      '81 a9 5f5f70726f746f5f5f cf 0000010000000000',
    ],
  ])('encode follows the rule: %s', (_, value, bytesInHex) => {
    expect(encode(value).toString('hex')).toBe(bytesInHex.replaceAll(' ', ''));
  });

  class Stranger {}
  test.each([
    ['a Date', new Date(0)],
    ['a Map', new Map([['a', 1]])],
    ['a Set', new Set([1])],
    ['a Error', new Error('x')],
    ['a RegExp', /x/],
    ['a URL', new URL('http://localhost/')],
    ['a Stranger', new Stranger()],
    ['a Promise', Promise.resolve()],
    // msgpackr writes it with twice its bytes, the second half from uninitialized memory.
    ['a Uint16Array', new Uint16Array([1, 2])],
    ['a ArrayBuffer', new ArrayBuffer(2)],
    ['a DataView', new DataView(new ArrayBuffer(2))],
    ['a bigint', 1n],
    ['a function', () => 1],
    ['a symbol', Symbol('x')],
  ])('%s can not be part of a message', (name, value) => {
    for (const message of [value, [value], { a: { b: value } }])
      expect(() => encode(message)).toThrow(new TypeError(`${name} can't be part of a message`));
  });

  test('a cycle is an error, after which it encodes as before', () => {
    const cycle: Record<string, unknown> = {};
    cycle.cycle = cycle;
    expect(() => encode(cycle)).toThrow(RangeError);
    expect(encode({ a: 1 }).toString('hex')).toBe('81a16101');
  });

  test('leaves the value as it was', () => {
    const inner = Object.freeze({ at: 2 ** 40, text: '\ud800' });
    const value = Object.freeze({ list: Object.freeze([inner, undefined]), none: undefined });
    encode(value);
    expect(value).toStrictEqual({ list: [{ at: 2 ** 40, text: '\ud800' }, undefined], none: undefined });
  });

  test('a small message after a large one does not keep the memory of the large one', () => {
    encode('x'.repeat(4 * 1024 * 1024));
    expect(encode({ a: 1 }).buffer.byteLength).toBeLessThanOrEqual(128 * 1024);
  });

  test('messages that were encoded earlier stay as they were', () => {
    const first = encode({ a: 'first' });
    const kept = first.toString('hex');
    for (let i = 0; i < 2000; i++) encode({ i, text: 'y'.repeat(i % 500) });
    expect(first.toString('hex')).toBe(kept);
  });
});

describe('bounds of encoding', () => {
  const bounds = { messageDepthMax: 3, messageElementsMax: 10 };
  test('a message as deep and as large as the bounds permit is encoded', () => {
    expect(read(encode([[[1]], 2, 3, 4, 5, 6, 7], 0, bounds))).toEqual([[[1]], 2, 3, 4, 5, 6, 7]);
  });
  test('one level more is refused', () => {
    expect(() => encode([[[[1]]]], 0, bounds)).toThrow(RangeError);
  });
  test('one value more is refused', () => {
    expect(() => encode(new Array(10).fill(1), 0, bounds)).toThrow(/more than 10 values/);
  });
  test('a refused message leaves nothing in the next one', () => {
    expect(() => encode(['a'.repeat(100), 1n])).toThrow(TypeError);
    expect(encode([1]).toString('hex')).toBe('9101');
  });
});
