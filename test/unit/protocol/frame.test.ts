import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { RpcError } from '../../../src/base/errors.ts';
import { defaultLimits } from '../../../src/base/limits.ts';
import { decode } from '../../../src/wire/protocol/codec.ts';
import { encodeFrame, FrameReader, toFrameBefore } from '../../../src/wire/protocol/frame.ts';

const MiB = 1024 * 1024;
const MAX = 16 * MiB;

function thrownBy(run: () => unknown): unknown {
  try {
    run();
  } catch (error) {
    return error;
  }
  return undefined;
}

const frames = (payloads: readonly Uint8Array[]): Buffer => Buffer.concat(payloads.map((it) => encodeFrame(it, MAX)));

function readAll(reader: FrameReader, chunks: Iterable<Uint8Array>): Buffer[] {
  const payloads: Buffer[] = [];
  for (const chunk of chunks) payloads.push(...reader.push(chunk));
  return payloads;
}

/** Splits the stream into pieces of `size` bytes, each in its own memory, as from a socket. */
function* pieces(stream: Buffer, size: number): Generator<Buffer> {
  for (let at = 0; at < stream.length; at += size) yield Buffer.from(stream.subarray(at, at + size));
}

const announce = (length: number): Buffer => {
  const header = Buffer.alloc(4);
  header.writeUInt32BE(length);
  return header;
};

describe('encodeFrame', () => {
  test('writes the length as four big-endian bytes before the payload', () => {
    expect(encodeFrame(Buffer.from('abc'), MAX).toString('hex')).toBe('00000003616263');
    expect(encodeFrame(new Uint8Array(0x010203), MAX).subarray(0, 4).toString('hex')).toBe('00010203');
  });

  test('takes a payload of exactly the bound and refuses one byte more', () => {
    expect(encodeFrame(new Uint8Array(10), 10)).toHaveLength(14);
    expect(thrownBy(() => encodeFrame(new Uint8Array(11), 10))).toMatchObject({
      code: 'FRAME_TOO_LARGE',
      message: 'a frame has 11 bytes; at most 10 are accepted',
    });
  });
});

describe('toFrameBefore', () => {
  test('the beginning of a frame followed by its last bytes is the frame of the whole message', () => {
    for (const size of [0, 1, 255, 70_000]) {
      const data = Buffer.alloc(size, 7);
      const before = toFrameBefore(data, { output: { id: 1, stream: 'stdout', data: Buffer.alloc(0) } }, MAX);
      const [payload] = readAll(new FrameReader(MAX), [Buffer.concat([before, data])]) as [Buffer];
      expect(decode(payload, defaultLimits)).toEqual({ output: { id: 1, stream: 'stdout', data } });
    }
    const error = thrownBy(() => toFrameBefore(Buffer.alloc(100), { data: Buffer.alloc(0) }, 100));
    expect(error).toMatchObject({ code: 'FRAME_TOO_LARGE' });
  });
});

describe('FrameReader', () => {
  const payloads = ['', 'a', 'hello', 'x'.repeat(70), '', 'end'].map((it) => Buffer.from(it));
  const stream = frames(payloads);

  test('finds the same payloads when the stream comes one byte at a time', () => {
    expect(readAll(new FrameReader(MAX), pieces(stream, 1))).toEqual(payloads);
  });

  test('finds the same payloads whichever two places the stream is split at', () => {
    for (let first = 0; first <= stream.length; first++) {
      for (let second = first; second <= stream.length; second++) {
        const chunks = [stream.subarray(0, first), stream.subarray(first, second), stream.subarray(second)];
        expect(readAll(new FrameReader(MAX), chunks)).toEqual(payloads);
      }
    }
  });

  test('gives back any list of payloads, however the stream is cut', () => {
    const lists = fc.array(fc.uint8Array({ maxLength: 9000 }), { maxLength: 6 });
    const sizes = fc.array(fc.integer({ min: 0, max: 5000 }), { minLength: 1, maxLength: 12 });
    fc.assert(
      fc.property(lists, sizes, (list, cuts) => {
        const all = frames(list);
        const reader = new FrameReader(MAX);
        const found: Buffer[] = [];
        let at = 0;
        for (let i = 0; at < all.length; i++) {
          const size = i < 2 * cuts.length ? (cuts[i % cuts.length] as number) : all.length;
          found.push(...reader.push(Buffer.from(all.subarray(at, at + size))));
          at += size;
        }
        expect(found).toEqual(list.map((it) => Buffer.from(it)));
        expect(reader.pending).toBe(false);
      }),
    );
  });

  test('shares memory with a chunk that holds the frame whole', () => {
    const chunk = frames([Buffer.from('one'), Buffer.from('two')]);
    const [one, two] = new FrameReader(MAX).push(chunk) as [Buffer, Buffer];
    chunk.fill(0x7a);
    expect([one.toString(), two.toString()]).toEqual(['zzz', 'zzz']);
  });

  test('does not share memory with chunks that hold the frame in parts', () => {
    const chunk = frames([Buffer.from('parted')]);
    const reader = new FrameReader(MAX);
    reader.push(chunk.subarray(0, 7));
    const last = Buffer.from(chunk.subarray(7));
    const [payload] = reader.push(last) as [Buffer];
    chunk.fill(0);
    last.fill(0);
    expect(payload.toString()).toBe('parted');
  });

  test('fills the memory of a payload again only where that was given back', () => {
    const list = Array.from({ length: 9 }, (_, i) => Buffer.from(`part ${i}`));
    const fed = (reader: FrameReader, isGivenBack: boolean) =>
      [...pieces(frames(list), 3)].flatMap((chunk) => {
        const payloads = reader.push(chunk);
        const seen = payloads.map((it) => ({ text: it.toString(), memory: it.buffer }));
        if (isGivenBack) for (const it of payloads) reader.giveBack(it);
        return seen;
      });
    for (const isGivenBack of [false, true]) {
      const all = fed(new FrameReader(MAX), isGivenBack);
      expect(all.map((it) => it.text)).toEqual(list.map(String));
      expect(new Set(all.map((it) => it.memory)).size).toBe(isGivenBack ? 1 : list.length);
    }
  });

  test('a reader is pending from the first byte of a frame to its last, and says how many bytes it holds', () => {
    const reader = new FrameReader(MAX);
    const held = [...pieces(frames([Buffer.from('abc')]), 1)].map((byte) => {
      reader.push(byte);
      return [reader.pending, reader.partialBytes];
    });
    expect(held).toEqual([...[1, 2, 3, 4, 5, 6].map((count) => [true, count]), [false, 0]]);
  });

  test('takes a frame of exactly the bound', () => {
    expect(readAll(new FrameReader(100), pieces(frames([Buffer.alloc(100, 1)]), 7))).toEqual([Buffer.alloc(100, 1)]);
  });

  test.each([1, 4])('refuses an announced length over the bound, read %i bytes at a time, at its header', (size) => {
    const error = thrownBy(() => readAll(new FrameReader(MAX), pieces(announce(MAX + 1), size)));
    expect(error).toBeInstanceOf(RpcError);
    expect((error as RpcError).toWire()).toEqual({
      code: -32001,
      message: 'a frame has 16777217 bytes; at most 16777216 are accepted',
      data: { code: 'FRAME_TOO_LARGE', length: 16_777_217, max: 16_777_216 },
    });
  });

  test('goes on refusing after it refused once, whatever comes', () => {
    const reader = new FrameReader(MAX);
    expect(thrownBy(() => reader.push(announce(2 ** 32 - 1)))).toMatchObject({ code: 'FRAME_TOO_LARGE' });
    expect(thrownBy(() => reader.push(encodeFrame(Buffer.from('fine'), MAX)))).toMatchObject({
      code: 'FRAME_TOO_LARGE',
    });
  });
});

describe('what a hostile peer costs', () => {
  const bufferBytes = () => process.memoryUsage().arrayBuffers;

  test('a length that is refused allocates nothing of that size', () => {
    const before = bufferBytes();
    for (let i = 0; i < 100; i++) thrownBy(() => new FrameReader(MAX).push(announce(2 ** 32 - 1)));
    expect(bufferBytes() - before).toBeLessThan(MiB);
  });

  test('a length that is allowed but never sent allocates nothing of that size', () => {
    const before = bufferBytes();
    const readers = Array.from({ length: 64 }, () => new FrameReader(MAX));
    for (const reader of readers) {
      reader.push(announce(MAX));
      reader.push(Buffer.from('x'));
    }
    expect(bufferBytes() - before).toBeLessThan(MiB);
    expect(readers.every((it) => it.partialBytes === 5)).toBe(true);
  });

  test('a frame that comes in single bytes costs memory like its bytes, not like its chunks', () => {
    const reader = new FrameReader(MAX);
    reader.push(announce(MAX));
    const before = bufferBytes();
    for (let i = 0; i < 100_000; i++) reader.push(Buffer.from('x'));
    expect(reader.partialBytes).toBe(100_004);
    // Memory that the garbage collector has not freed counts, too: all outgrown buffers.
    expect(bufferBytes() - before).toBeLessThan(2 * MiB);
  });

  test('a frame in 131 072 chunks takes about as long as a frame in each chunk', () => {
    const timeOf = (stream: Buffer): number => {
      const chunks = [...pieces(stream, 16)];
      const runs = Array.from({ length: 5 }, () => {
        const start = process.hrtime.bigint();
        readAll(new FrameReader(MAX), chunks);
        return Number(process.hrtime.bigint() - start);
      });
      return Math.min(...runs);
    };
    const one = encodeFrame(Buffer.alloc(2 * MiB - 4), MAX);
    const many = frames(new Array(one.length / 16).fill(Buffer.alloc(12)));
    expect(many).toHaveLength(one.length);
    // Joining at each chunk would copy 137 GB, some ten thousand times as long.
    expect(timeOf(one) / timeOf(many)).toBeLessThan(20);
  });
});
