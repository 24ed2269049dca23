/** Rewriting a config in place never exposes a line that is in neither the old nor the new text. */
import { closeSync, openSync, readFileSync, rmSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { rewrite } from '../../../../../src/sandbox/git/config/take-over.ts';
import { type Entry, parseGitConfig } from '../../../../../src/sandbox/git/config/text.ts';
import { temporaryDir } from '../../../../support/daemon.ts';

const folder = temporaryDir('rewrite');
afterAll(() => rmSync(folder, { recursive: true }));

const A = '[core]\n\tbare = false\n\n; mine\n[user]\n\tname = Ada\n';
const TRAP = '[branch "x"]\n\tdescription = "long  fsmonitor = id"\n\tremote = .\n';

const said = ({ key, value }: Entry): string => JSON.stringify([key, value]);

test.each([
  ['longer at its end', A, `${A}${TRAP}`],
  ['shorter', `${A}${TRAP}`, A],
  ['changed in its middle', `${A}${TRAP}`, `${A.replace('Ada', 'Grace Hopper')}${TRAP}`],
  ['shorter in its middle', `[a]\n\tk = vvvvvvvvvvvvvvv\n${TRAP}`, `[a]\n\tk = v\n${TRAP}`],
  ['without its last newline', A.trimEnd(), `${A}[b]\n\tk = 1\n`],
  ['empty', '', A],
  ['emptied', A, ''],
])('a reader of a config that becomes %s sees no line that is in neither text', (_, before, after) => {
  const path = join(folder, 'config');
  writeFileSync(path, before);
  const known = new Set([before, after].flatMap((it) => parseGitConfig(it) ?? []).map(said));
  const fd = openSync(path, 'r+');
  const look = (text: string) => {
    const entries = parseGitConfig(text);
    // A cut comment is still a comment; lines without their section are no config.
    for (const it of entries ?? []) expect([text, known.has(said(it))]).toEqual([text, true]);
  };
  const slowly = ((...[to, bytes, from, count, at]: [number, Buffer, number, number, number]) => {
    const old = readFileSync(path);
    const end = Math.max(old.length, at + count);
    // A reader may see the write at any byte, on either side of it.
    for (let i = 0; i <= count; i++) {
      const half = Buffer.alloc(at + i >= old.length ? at + i : old.length);
      old.copy(half);
      bytes.copy(half, at, from, from + i);
      look(half.toString());
      if (end === old.length) {
        const other = Buffer.from(old);
        bytes.copy(other, at + i, from + i, from + count);
        look(other.toString());
      }
    }
    return writeSync(to, bytes, from, count, at);
  }) as typeof writeSync;
  rewrite(fd, Buffer.from(before), Buffer.from(after), slowly);
  closeSync(fd);
  expect(readFileSync(path, 'utf8')).toBe(after);
});
