/** Folders that tell names by case; script/test-vm has one that does not. */
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { isCaseSensitive } from '../../src/base/case.ts';
import { temporaryDir } from '../support/daemon.ts';

test('folders of this file system tell names by case: with letters, without, and empty ones', () => {
  const folder = temporaryDir('case');
  try {
    for (const it of ['empty', 'digits', 'letters']) mkdirSync(join(folder, it));
    writeFileSync(join(folder, 'digits/1'), '');
    writeFileSync(join(folder, 'letters/aB'), '');
    writeFileSync(join(folder, 'letters/Ab'), '');
    for (const it of ['empty', 'digits', 'letters', '.']) expect(isCaseSensitive(join(folder, it))).toBe(true);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
