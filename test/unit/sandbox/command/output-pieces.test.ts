import { setImmediate } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { silentLog, systemPowers } from '../../../../src/base/powers.ts';
import { type OnPiece, OutputPieces } from '../../../../src/sandbox/command/output-pieces.ts';
import { until } from '../../../support/daemon.ts';

function pieces() {
  const given: [string, string][] = [];
  const onPiece: OnPiece = (stream, data) => void given.push([stream, Buffer.from(data).toString()]);
  const it = new OutputPieces({ onPiece, onFull() {} }, systemPowers(silentLog));
  const push = (stream: 'stdout' | 'stderr', text: string) => it.push(stream, Buffer.from(text));
  return { given, push, it };
}

test('output of one turn is one piece, passed on in that turn', async () => {
  const { given, push } = pieces();
  for (const text of ['a', 'bc', 'd']) push('stdout', text);
  expect(given).toEqual([]);
  await setImmediate();
  expect(given).toEqual([['stdout', 'abcd']]);
  await setImmediate();
  expect(given).toHaveLength(1);
});

test('output after a first piece is joined over turns, and passed on soon', async () => {
  const { given, push } = pieces();
  push('stdout', 'a');
  await setImmediate();
  push('stdout', 'b');
  push('stdout', 'c');
  expect(given).toEqual([['stdout', 'a']]);
  await until(() => given.length === 2);
  expect(given[1]).toEqual(['stdout', 'bc']);
});

test('the streams stay in the order in which they came', async () => {
  const { given, push, it } = pieces();
  push('stdout', 'a');
  push('stderr', 'b');
  push('stderr', 'c');
  push('stdout', 'd');
  it.flush();
  expect(given).toEqual([
    ['stdout', 'a'],
    ['stderr', 'bc'],
    ['stdout', 'd'],
  ]);
});

test('no piece is larger than 128 KiB, and none is lost', () => {
  const { given, push, it } = pieces();
  const texts = Array.from({ length: 50 }, (_, i) => String(i % 10).repeat(8192));
  for (const text of texts) push('stdout', text);
  it.flush();
  expect(Math.max(...given.map(([, text]) => text.length))).toBe(131_072);
  expect(given.map(([, text]) => text).join('')).toBe(texts.join(''));
});

test('a piece has memory of its own, and says when there is no room for more', () => {
  const chunk = Buffer.from('abc');
  const room = Promise.resolve();
  const told: Promise<void>[] = [];
  let own: Uint8Array | undefined;
  const onPiece: OnPiece = (_, data) => {
    own = data;
    return room;
  };
  const it = new OutputPieces({ onPiece, onFull: (full) => told.push(full) }, systemPowers(silentLog));
  it.push('stderr', chunk);
  it.flush();
  chunk.fill(0);
  expect(Buffer.from(own ?? []).toString()).toBe('abc');
  expect(own?.byteLength).toBe(own?.buffer.byteLength);
  expect(told).toEqual([room]);
});
