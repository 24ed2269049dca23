import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { RpcError } from '../../../src/base/errors.ts';
import { defaultLimits } from '../../../src/base/limits.ts';
import { parseJson } from '../../../src/base/text/json.ts';
import { decodeJson, encodeJson } from '../../../src/wire/protocol/json.ts';

const read = (text: string): unknown => decodeJson(Buffer.from(text), defaultLimits);

/** The message of the PARSE error for a text; fails if there is none. */
function refusalOf(text: string | Uint8Array, limits: Parameters<typeof decodeJson>[1] = defaultLimits): string {
  try {
    decodeJson(Buffer.from(text as string), limits);
  } catch (error) {
    expect(error).toBeInstanceOf(RpcError);
    expect((error as RpcError).code).toBe('PARSE');
    return (error as RpcError).message.replace('not an acceptable message: ', '');
  }
  return expect.unreachable(`${String(text).slice(0, 60)} was accepted`);
}

/** Restores prototypes, and turns -0 into 0. */
const normal = (value: unknown): unknown => parseJson(JSON.stringify(value));

describe('decodeJson', () => {
  test('reads any JSON as JSON.parse does', () => {
    const spaced = fc.tuple(fc.json({ stringUnit: 'grapheme' }), fc.constantFrom('', ' ', '\n\t'));
    fc.assert(
      fc.property(spaced, ([json, space]) => {
        // The document itself, and an equal one with white space.
        for (const text of [json, JSON.stringify(parseJson(json), undefined, space)]) {
          expect(normal(read(`${space}${text}${space}`))).toEqual(parseJson(text));
        }
      }),
      { numRuns: 500 },
    );
  });

  test('refuses whatever JSON.parse refuses', () => {
    const almost = fc
      .tuple(
        fc.json(),
        fc.nat(),
        fc.constantFrom('', '"', ',', ':', '[', '}', '\\', '0', '-', '.', 'e', '\u0001', 't', '\u00a0'),
      )
      .map(([json, at, put]) => json.slice(0, at % (json.length + 1)) + put + json.slice((at % (json.length + 1)) + 1));
    fc.assert(
      fc.property(almost, (text) => {
        try {
          JSON.parse(text);
        } catch {
          refusalOf(text); // JSON.parse refused it, so we must, too.
        }
      }),
      { numRuns: 2000 },
    );
  });

  test.each([
    ['""', ''],
    ['"\\u00e9\\n\\"\\\\"', 'é\n"\\'],
    ['"\\\\"', '\\'],
    ['"ends in a backslash \\\\"', 'ends in a backslash \\'],
    ['"a \\" b \\\\\\" c and more"', 'a " b \\" c and more'],
    ['"\\ud83d\\ude00"', '😀'],
    [' [ 1 , -2.5e3 , true , false , null ] ', [1, -2500, true, false, null]],
    ['9007199254740991', Number.MAX_SAFE_INTEGER],
    ['1e300', 1e300],
    ['100000000000000000000', 1e20],
  ])('reads %s as %j', (text, value) => {
    expect(read(text)).toStrictEqual(value);
  });

  test('gives objects without a prototype, in which __proto__ is a key like others', () => {
    const object = read('{"__proto__": {"a": 1}}') as object;
    expect(Object.getPrototypeOf(object)).toBeNull();
    expect(Object.keys(object)).toEqual(['__proto__']);
    expect(({} as Record<string, unknown>).a).toBeUndefined();
  });

  test.each([
    ['nothing at all', '', 'it ends too early, at character 0'],
    ['a key that comes twice', '{"a":1,"a":2}', 'a duplicate key, at character 10'],
    ['a key that comes twice in two spellings', '{"a":1,"\\u0061":2}', 'a duplicate key, at character 15'],
    ['__proto__ twice', '{"__proto__":1,"__proto__":2}', 'a duplicate key, at character 26'],
    ['something behind the message', '1 2', 'something follows the message, at character 2'],
    ['a comma before the end of an array', '[1,]', 'not JSON, at character 3'],
    ['an array that is not closed', '[1', 'an array that does not go on, at character 2'],
    ['a key without quotes', '{a:1}', 'a key that is not a string, at character 1'],
    ['a key without a value', '{"a"}', 'a key without a value, at character 4'],
    ['a string that is not closed', '"abc', 'a string without an end, at character 0'],
    ['a string whose last quote is escaped', '"abc\\"', 'a string without an end, at character 0'],
    ['an unknown escape', '"\\x41"', 'a string with what JSON has not in it, at character 0'],
    ['a control character in a string', '"a\nb"', 'a string with what JSON has not in it, at character 0'],
    ['half a surrogate pair', '"\\ud800"', 'half a surrogate pair, at character 0'],
    ['a byte order mark', '\ufeff1', 'not JSON, at character 0'],
    ['a leading zero', '01', 'not JSON, at character 0'],
    ['NaN', 'NaN', 'not JSON, at character 0'],
    [
      'an integer that a double would change',
      '9007199254740993',
      'an integer that a double would change, at character 0',
    ],
    ['a number that a double can not hold', '1e400', 'a number beyond a double, at character 0'],
    ['a number of 65 digits', '1'.repeat(65), 'a number of more than 64 characters, at character 0'],
  ])('refuses %s', (_, text, reason) => {
    expect(refusalOf(text)).toBe(reason);
  });

  test('refuses bytes that are not UTF-8', () => {
    expect(refusalOf(Buffer.from([0x22, 0xff, 0x22]))).toBe('invalid UTF-8');
  });

  test('refuses one level of nesting more than the limit', () => {
    const limits = { messageDepthMax: 3, messageElementsMax: 100 };
    expect(decodeJson(Buffer.from('[[{}]]'), limits)).toEqual([[{}]]);
    expect(refusalOf('[[{"a":[]}]]', limits)).toBe('nested more than 3 deep, at character 7');
    expect(refusalOf('['.repeat(100_000))).toBe('nested more than 64 deep, at character 64');
  });

  test('refuses one value more than the limit, with keys, scalars and containers counted alike', () => {
    const limits = { messageDepthMax: 10, messageElementsMax: 5 };
    expect(decodeJson(Buffer.from('[{"a":[]},1]'), limits)).toHaveLength(2);
    expect(refusalOf('[{"a":[1]},1]', limits)).toBe('more than 5 elements, at character 11');
  });
});

describe('encodeJson', () => {
  test('writes any finite number so that decodeJson reads the same', () => {
    const finite = fc.double({ noNaN: true, noDefaultInfinity: true });
    fc.assert(
      fc.property(finite, (value) => {
        expect(decodeJson(encodeJson([value]), defaultLimits)).toEqual([value === 0 ? 0 : value]);
      }),
      { numRuns: 1000 },
    );
  });

  test.each([
    ['bytes are base64 strings', { data: new Uint8Array([9, 1, 2, 9]).subarray(1, 3) }, '{"data":"AQI="}'],
    ['a Buffer is one too', [Buffer.from('hi')], '["aGk="]'],
    ['a member that is undefined is left out', { a: 1, b: undefined }, '{"a":1}'],
    ['undefined alone is null', undefined, 'null'],
    ['NaN is null', [Number.NaN], '[null]'],
    ['half a surrogate pair is U+FFFD', 'a\ud800', '"a\ufffd"'],
    ['toJSON is a key like others', { toJSON: 1 }, '{"toJSON":1}'],
  ])('encodeJson follows the rule: %s', (_, value, text) => {
    expect(encodeJson(value).toString()).toBe(text);
  });

  test.each([
    ['a Date', new Date(0)],
    ['a Map', new Map()],
    ['a bigint', 1n],
  ])('%s can not be part of a message', (name, value) => {
    expect(() => encodeJson({ value })).toThrow(new TypeError(`${name} can't be part of a message`));
  });
});
