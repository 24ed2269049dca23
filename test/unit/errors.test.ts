import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  CATEGORIES,
  CODES,
  type Code,
  type ErrorExtras,
  isCode,
  LAYERS,
  RPC_CODES,
  type RpcCode,
  RpcError,
  ToolError,
  toToolError,
} from '../../src/base/errors.ts';
import { defaultLimits } from '../../src/base/limits.ts';
import { decode, encode } from '../../src/wire/protocol/codec.ts';

const codes = Object.keys(CODES) as Code[];

describe.each(codes)('%s', (code) => {
  test('comes back from the wire as it went, with nothing added to it', () => {
    const wire = new ToolError(code, 'what was refused').toWire();
    expect(wire).toStrictEqual({ code, message: 'what was refused', ...CODES[code] });
    expect(ToolError.fromWire(wire).toWire()).toStrictEqual(wire);
  });

  test('the error code has a category and a layer of the closed lists', () => {
    expect(CATEGORIES).toContain(CODES[code].category);
    expect(LAYERS).toContain(CODES[code].layer);
  });
});

test('any error comes back from the wire as it went, also through the codec', () => {
  const extras = fc.record<ErrorExtras>(
    {
      suggestion: fc.string(),
      rule: fc.string(),
      layer: fc.constantFrom(...LAYERS),
      details: fc.dictionary(fc.stringMatching(/^[a-z]{1,5}$/), fc.oneof(fc.integer(), fc.string(), fc.boolean()), {
        noNullPrototype: true,
      }),
    },
    { requiredKeys: [] },
  );
  fc.assert(
    fc.property(fc.constantFrom(...codes), fc.string(), extras, (code, message, more) => {
      const error = new ToolError(code, message, more);
      const wire = error.toWire();
      const { layer = CODES[code].layer, ...others } = more;
      expect(wire).toStrictEqual({ code, message, ...CODES[code], layer, ...others });
      expect(ToolError.fromWire(wire).toWire()).toStrictEqual(wire);
      expect(decode(encode(wire), defaultLimits)).toEqual(wire);
    }),
  );
});

test('an error goes over the wire without its cause and stack', () => {
  const wire = new ToolError('INTERNAL', 'hidden', { cause: new Error('/home/alice/secret') }).toWire();
  expect(Object.keys(wire)).toEqual(['code', 'category', 'message', 'recoverable', 'layer']);
});

describe('toToolError', () => {
  test('gives a ToolError as it is', () => {
    const error = new ToolError('NOT_FOUND', 'gone');
    expect(toToolError(error)).toBe(error);
  });

  test.each([new Error('/home/alice/secret'), 'a string', undefined, null, 42, { code: 'NOT_FOUND' }])(
    'makes %o INTERNAL, told as cause and to nobody else',
    (thrown) => {
      const error = toToolError(thrown);
      expect(error).toMatchObject({ code: 'INTERNAL', extras: { cause: thrown } });
      expect(error.message).toBe('something went wrong inside Ringfence; the daemon log has the cause');
    },
  );
});

test('only the names of the list are codes', () => {
  expect(codes.every(isCode)).toBe(true);
  for (const it of ['', 'not_found', '__proto__', 'constructor', 'toString', 0, null, undefined, ['NOT_FOUND']])
    expect(isCode(it)).toBe(false);
});

test.each(Object.keys(RPC_CODES) as RpcCode[])('the RPC error %s goes over the wire with number and name', (code) => {
  expect(new RpcError(code, 'why', { more: 1 }).toWire()).toStrictEqual({
    code: RPC_CODES[code],
    message: 'why',
    data: { code, more: 1 },
  });
});

test('no two RPC errors have one number', () => {
  expect(new Set(Object.values(RPC_CODES)).size).toBe(Object.keys(RPC_CODES).length);
});
