import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import type { Readable } from 'node:stream';
import { expect, test } from 'vitest';
import { NODES_PIPE, openOutputPipe } from '../../../../src/sandbox/command/output-pipe.ts';
import { until } from '../../../support/daemon.ts';

const hasFfi = process.platform === 'linux' && openReal();

function openReal(): boolean {
  using pipe = openOutputPipe();
  return typeof pipe.writer === 'number';
}

async function outputOf(script: string, { real }: { real: boolean }): Promise<{ text: string; memories: number }> {
  using pipe = real ? openOutputPipe() : NODES_PIPE;
  const child = spawn('/bin/bash', ['-c', script], { stdio: ['ignore', pipe.writer, 'inherit'] });
  const parts: Buffer[] = [];
  const memories = new Set<ArrayBufferLike>();
  const source = pipe.read(child.stdout, (bytes) => {
    parts.push(Buffer.from(bytes));
    memories.add(bytes.buffer);
  }) as Readable;
  await once(source, 'close');
  return { text: Buffer.concat(parts).toString('latin1'), memories: memories.size };
}

const NUMBERS = Array.from({ length: 100_000 }, (_, i) => `${i + 1}\n`).join('');

test.each([true, false])(
  'all that was written comes, in its order, and then an end (a real pipe: %s)',
  async (real) => {
    if (real && !hasFfi) return;
    expect((await outputOf('seq 100000', { real })).text).toBe(NUMBERS);
    expect((await outputOf('exec >&-; sleep 0.01', { real })).text).toBe('');
  },
);

test.skipIf(!hasFfi)('a real pipe is read into one memory, and can be opened by its name', async () => {
  expect((await outputOf('seq 100000', { real: true })).memories).toBe(1);
  expect((await outputOf('echo by name > /dev/stdout', { real: true })).text).toBe('by name\n');
});

test.each([true, false])('a writer waits while nobody reads (a real pipe: %s)', async (real) => {
  if (real && !hasFfi) return;
  using pipe = real ? openOutputPipe() : NODES_PIPE;
  const child = spawn('/bin/bash', ['-c', 'head -c 3000000 /dev/zero; echo done >&2'], {
    stdio: ['ignore', pipe.writer, 'pipe'],
  });
  let [bytes, told] = [0, ''];
  child.stderr?.on('data', (chunk) => (told += chunk));
  const source = pipe.read(child.stdout, (chunk) => {
    bytes += chunk.length;
    if (bytes < 100_000) source.pause();
  }) as Readable;
  const closed = once(source, 'close');
  await until(() => bytes > 0);
  for (let seen = 0; bytes < 100_000; ) {
    expect(told).toBe('');
    expect(bytes).toBeGreaterThan(seen);
    seen = bytes;
    source.resume();
    await until(() => bytes > seen);
  }
  await closed;
  expect(bytes).toBe(3_000_000);
});

test.skipIf(!hasFfi)('a pipe that was disposed of, read to its end or destroyed leaves no descriptor', async () => {
  const count = () => readdirSync('/proc/self/fd').length;
  await outputOf('true', { real: true });
  const before = count();
  for (let i = 0; i < 20; i++) openOutputPipe()[Symbol.dispose]();
  await outputOf('seq 10', { real: true });
  using pipe = openOutputPipe();
  const child = spawn('/bin/sleep', ['60'], { stdio: ['ignore', pipe.writer, 'inherit'] });
  const source = pipe.read(null, () => {}) as Readable;
  source.destroy();
  child.kill('SIGKILL');
  await Promise.all([once(source, 'close'), once(child, 'close')]);
  expect(count()).toBeLessThanOrEqual(before);
});
