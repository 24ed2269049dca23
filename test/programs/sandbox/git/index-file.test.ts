import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { parseIndex } from '../../../../src/sandbox/git/index-file.ts';
import { temporaryDir } from '../../../support/daemon.ts';

let folder: string;
beforeEach(() => {
  folder = temporaryDir('index');
});
afterEach(() => rmSync(folder, { recursive: true }));

const git = (...args: string[]) => execFileSync('git', args, { cwd: folder, encoding: 'utf8' });

describe('an index of git', () => {
  test.each([2, 3, 4])('an index of version %i is read as git reads it', (version) => {
    git('init', '-q', '.');
    for (const path of ['a', 'a.txt', 'deep/er/b', 'deep/er/bc', `${'n'.repeat(200)}`, 'ü', 'deep/z z']) {
      mkdirSync(join(folder, path, '..'), { recursive: true });
      writeFileSync(join(folder, path), path);
    }
    chmodSync(join(folder, 'a'), 0o755);
    symlinkSync('a', join(folder, 'link'));
    git('add', '-A');
    // An extended entry, which needs version 3.
    if (version === 3) git('update-index', '--skip-worktree', 'a.txt');
    git('update-index', '--index-version', `${version}`);
    const entries = parseIndex(readFileSync(join(folder, '.git/index')));
    const told = git('ls-files', '-s', '-z').split('\0').filter(Boolean);
    expect(
      [...(entries ?? [])].map(([name, { blob, type, isExecutable }]) => [name, blob, type, isExecutable]),
    ).toEqual(
      told.map((line) => {
        const [, mode, blob, name] = /^(\d+) (\w+) 0\t(.*)$/s.exec(line) as unknown as string[];
        return [name, blob, mode === '120000' ? 'link' : 'file', mode === '100755'];
      }),
    );
    expect(entries?.get('deep/er/bc')?.size).toBe('deep/er/bc'.length);
  });

  test('an index of any bytes is read to an end, or refused', () => {
    const header = fc
      .constantFrom(2, 3, 4)
      .map((version) => Buffer.from([68, 73, 82, 67, 0, 0, 0, version, 0, 0, 255, 255]));
    fc.assert(
      fc.property(header, fc.uint8Array({ maxLength: 600 }), (first, rest) => {
        const entries = parseIndex(Buffer.concat([first, rest]));
        expect(entries === undefined || entries.size <= rest.length).toBe(true);
      }),
    );
    expect(parseIndex(Buffer.from('DIRC'))).toBeUndefined();
    expect(parseIndex(Buffer.alloc(0))).toBeUndefined();
  });
});
