/** Folders that tell names by case; script/test-vm has one that does not. */
import { linkSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { isCaseSensitive } from '../../src/base/case.ts';
import { temporaryDir } from '../support/daemon.ts';

test('folders of this file system tell names by case: with letters, without, with links, and empty ones', () => {
  const folder = temporaryDir('case');
  try {
    for (const it of ['empty', 'digits', 'letters', 'links']) mkdirSync(join(folder, it));
    writeFileSync(join(folder, 'digits/1'), '');
    writeFileSync(join(folder, 'letters/aB'), '');
    writeFileSync(join(folder, 'letters/Ab'), '');
    // Two names of one file, which differ in case alone.
    writeFileSync(join(folder, 'links/aB'), '');
    linkSync(join(folder, 'links/aB'), join(folder, 'links/Ab'));
    for (const it of ['empty', 'digits', 'letters', 'links', '.']) expect(isCaseSensitive(join(folder, it))).toBe(true);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
