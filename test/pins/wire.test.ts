/** Pins the bytes on the wire: a change here breaks released clients. */
import { describe, expect, test } from 'vitest';
import { RPC_CODES, RpcError, ToolError } from '../../src/base/errors.ts';
import { defaultLimits } from '../../src/base/limits.ts';
import { decode, encode } from '../../src/wire/protocol/codec.ts';
import { encodeFrame } from '../../src/wire/protocol/frame.ts';
import { decodeJson, encodeJson } from '../../src/wire/protocol/json.ts';

const squeezed = (hex: string): string => hex.replaceAll(/\s/g, '');

const hello = {
  id: 1,
  method: 'hello',
  params: { protocol: 1, client: { name: 'pin', version: '1.0.0' }, workspace: '/w', token: undefined },
};
const helloInHex = squeezed(`
  83
    a2 6964 01
    a6 6d6574686f64 a5 68656c6c6f
    a6 706172616d73 83
      a8 70726f746f636f6c 01
      a6 636c69656e74 82
        a4 6e616d65 a3 70696e
        a7 76657273696f6e a5 312e302e30
      a9 776f726b7370616365 a2 2f77`);

const call = {
  id: 7,
  method: 'tools.call',
  params: {
    tool: 'file_read',
    input: { path: 'README.md', startLine: 300 },
    options: { progress: true, timeoutMs: 70_000 },
  },
};
const callInHex = squeezed(`
  83
    a2 6964 07
    a6 6d6574686f64 aa 746f6f6c732e63616c6c
    a6 706172616d73 83
      a4 746f6f6c a9 66696c655f72656164
      a5 696e707574 82
        a4 70617468 a9 524541444d452e6d64
        a9 73746172744c696e65 cd 012c
      a7 6f7074696f6e73 82
        a8 70726f6772657373 c3
        a9 74696d656f75744d73 ce 00011170`);

describe.each([
  ['a hello request', hello, helloInHex],
  ['a tools.call request', call, callInHex],
])('%s', (_, request, hex) => {
  test('the encoder writes the request as these bytes', () => {
    expect(encode(request).toString('hex')).toBe(hex);
  });

  test('the decoder reads the request from these bytes', () => {
    expect(decode(Buffer.from(hex, 'hex'), defaultLimits)).toEqual(request);
  });
});

describe('an output notification', () => {
  const output = {
    method: 'call.output',
    params: { callId: 'c', seq: 2 ** 33, stream: 'stdout', data: Buffer.from([0, 255]) },
  };

  test('the encoder writes an output notification as these bytes', () => {
    const hex = squeezed(`
      82
        a6 6d6574686f64 ab 63616c6c2e6f7574707574
        a6 706172616d73 84
          a6 63616c6c4964 a1 63
          a3 736571 cf 0000000200000000
          a6 73747265616d a6 7374646f7574
          a4 64617461 c4 02 00ff`);
    expect(encode(output).toString('hex')).toBe(hex);
  });

  test('an output notification in JSON is this text, its bytes as base64', () => {
    const text = '{"method":"call.output","params":{"callId":"c","seq":8589934592,"stream":"stdout","data":"AP8="}}';
    expect(encodeJson(output).toString()).toBe(text);
    const { params } = output;
    expect(decodeJson(Buffer.from(text), defaultLimits)).toEqual({ ...output, params: { ...params, data: 'AP8=' } });
  });
});

test('a frame is four bytes of length, then the payload', () => {
  expect(encodeFrame(encode({ id: 1, result: {} }), 100).toString('hex')).toBe(
    squeezed('0000000d 82 a2 6964 01 a6 726573756c74 80'),
  );
});

const rpcCodes = [
  ['PARSE', -32700],
  ['INVALID_REQUEST', -32600],
  ['METHOD_NOT_FOUND', -32601],
  ['INVALID_PARAMS', -32602],
  ['INTERNAL', -32603],
  ['FRAME_TOO_LARGE', -32001],
  ['NOT_READY', -32002],
  ['UNAUTHENTICATED', -32003],
  ['FORBIDDEN', -32004],
  ['VERSION_UNSUPPORTED', -32005],
  ['OVERLOADED', -32006],
] as const;

test.each(rpcCodes)('the error %s is answered with its number', (code, number) => {
  expect(new RpcError(code, 'why').toWire()).toEqual({ code: number, message: 'why', data: { code } });
});

test('no other JSON-RPC error is there', () => {
  expect(RPC_CODES).toEqual(Object.fromEntries(rpcCodes));
});

test('an error of a call has these members and no others', () => {
  const extras = { suggestion: 's', rule: 'r', details: { retryAfterMs: 1 } };
  expect(encodeJson(new ToolError('QUEUE_FULL', 'full', extras).toWire()).toString()).toBe(
    '{"code":"QUEUE_FULL","category":"RESOURCE","message":"full","recoverable":true,"layer":"limit",' +
      '"suggestion":"s","rule":"r","details":{"retryAfterMs":1}}',
  );
});
