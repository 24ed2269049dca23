import { mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { toArgBytes, toArgs, toMaskWords } from '../../../src/sandbox/bubblewrap.ts';
import { ancestorsOf, guard, type Masks, maskMounts, NO_MASKS, onDisk } from '../../../src/sandbox/masks.ts';
import type { Mount } from '../../../src/sandbox/mount.ts';
import { temporaryDir } from '../../support/daemon.ts';

const masks = (it: Partial<Masks>): Masks => ({ ...NO_MASKS, ...it });
const path = fc.array(fc.constantFrom('a', 'b', 'a-b', '.c'), { minLength: 1, maxLength: 4 }).map((it) => it.join('/'));
const pathOf = (mount: Mount): string => ('path' in mount ? mount.path : mount.at);

test('an outer mount always comes before the ones inside it, and no writable one lies in a read-only one', () => {
  fc.assert(
    fc.property(fc.array(path), fc.array(path), fc.array(path), (readOnly, pinned, hidden) => {
      const mounts = maskMounts(
        masks({ readOnly, pinned, hidden: hidden.map((it) => ({ path: it, type: 'file' })) }),
        '/ws',
        true,
      );
      const held = mounts.filter((it) => it.kind !== 'hidden');
      for (const [at, mount] of held.entries()) {
        const inside = (it: Mount) => pathOf(mount).startsWith(`${pathOf(it)}/`);
        expect(held.slice(at + 1).filter(inside)).toEqual([]);
        if (mount.kind === 'rw-try') expect(held.filter((it) => it.kind === 'ro-try' && inside(it))).toEqual([]);
      }
      for (const it of readOnly)
        expect(held.some((mount) => mount.kind === 'ro-try' && `/ws/${it}/`.startsWith(`${pathOf(mount)}/`))).toBe(
          true,
        );
      expect(mounts.slice(held.length).map(pathOf)).toEqual(hidden.map((it) => `/ws/${it}`));
    }),
  );
});

test('a workspace that is read-only as a whole needs mounts for what is hidden only', () => {
  const all = masks({ readOnly: ['a'], pinned: ['b'], hidden: [{ path: 'c', type: 'file' }] });
  expect(maskMounts(all, '/ws', false)).toEqual([{ kind: 'hidden', type: 'file', path: '/ws/c' }]);
});

test('the workspace itself can be read-only, and then nothing in it is pinned', () => {
  expect(maskMounts(masks({ readOnly: ['', 'a'], pinned: ['a', 'b'] }), '/ws', true)).toEqual([
    { kind: 'ro-try', path: '/ws' },
  ]);
});

test('a guarded path is read-only with each folder above it pinned; a path elsewhere is left out', () => {
  expect(guard(NO_MASKS, '/ws', ['/ws/a/b/c', '/elsewhere', '/ws-evil/x'])).toEqual(
    masks({ readOnly: ['a/b/c'], pinned: ['a/b', 'a'] }),
  );
  expect(guard(NO_MASKS, '/ws/in', ['/ws'])).toBe(NO_MASKS);
});

test('the ancestors of a path are the directories between it and the workspace', () => {
  expect(ancestorsOf('a/b/c')).toEqual(['a/b', 'a']);
  expect([ancestorsOf('a'), ancestorsOf('')]).toEqual([[], []]);
});

test('a missing path and a link have no mount; a file that became a directory is masked as a directory', () => {
  const workspace = temporaryDir('masks');
  try {
    mkdirSync(join(workspace, 'folder'));
    writeFileSync(join(workspace, 'file'), '');
    symlinkSync('file', join(workspace, 'link'));
    const all = ['folder', 'file', 'link', 'missing', 'file/below'];
    const hidden = all.map((it) => ({ path: it, type: 'file' as const }));
    expect(onDisk({ hidden, readOnly: all, pinned: all }, workspace)).toEqual({
      hidden: [
        { path: 'folder', type: 'directory' },
        { path: 'file', type: 'file' },
      ],
      readOnly: ['folder', 'file'],
      pinned: ['folder', 'file'],
    });
  } finally {
    rmSync(workspace, { recursive: true });
  }
});

test('a hidden directory is read-only too, or its owner could open it again', () => {
  expect(toArgs({ kind: 'hidden', type: 'directory', path: '/ws/a' }).slice(-2)).toEqual(['--remount-ro', '/ws/a']);
});

test('arguments that bubblewrap reads from a descriptor hold a path as bytes, and no word with a NUL', () => {
  const bytes = Buffer.from([0x2f, 0x77, 0x2f, 0xff]);
  const words = toMaskWords({ kind: 'hidden', type: 'file', path: '/w/\ufffd', bytes });
  expect(toArgBytes(words)).toEqual(Buffer.concat([Buffer.from('--ro-bind\0/dev/null\0'), bytes, Buffer.from([0])]));
  for (const it of ['1\0--bind', Buffer.from('1\0--bind')])
    expect(() => toArgBytes(['--setenv', 'RANDOM', it])).toThrow('must not contain NUL bytes');
});
