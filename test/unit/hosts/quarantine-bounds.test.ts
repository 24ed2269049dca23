/** What is looked at of a folder in which a command made many names. */
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { blobsOf } from '../../../src/hosts/quarantine/blobs.ts';
import { innerOf, namesIn } from '../../../src/hosts/quarantine/places.ts';
import { entriesOf } from '../../../src/hosts/quarantine/trees.ts';
import { temporaryDir } from '../../support/daemon.ts';

const root = temporaryDir('many');
const folder = join(root, '.vscode');
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function fill(count: number, make: (at: string) => void): void {
  mkdirSync(folder, { recursive: true });
  for (let i = 0; i < count; i++) make(join(folder, String(i)));
}
const bounds = (entries: number) => ({ entries, bytes: 1024, skipped: new Map() });

test('a folder is read up to its bound, and not beyond it', () => {
  fill(3, (at) => writeFileSync(at, ''));
  expect(namesIn(folder, 3)?.sort()).toEqual(['0', '1', '2']);
  expect(namesIn(folder, 2)).toBeUndefined();
  expect(entriesOf(root, '.vscode', bounds(3))?.size).toBe(3);
  expect(entriesOf(root, '.vscode', bounds(2))).toBeUndefined();
});

test('a protected folder with too many names is one path, and has no hashes', () => {
  fill(2_001, (at) => writeFileSync(at, ''));
  expect(innerOf(root, '.vscode')).toBeUndefined();
  expect(blobsOf(root, '.vscode', 'sha1')).toEqual([]);
});

test('folders count as files do when hashes are looked for', () => {
  fill(401, (at) => mkdirSync(at));
  writeFileSync(join(folder, 'a'), '');
  expect(blobsOf(root, '.vscode', 'sha1')).toEqual([]);
  rmSync(folder, { recursive: true });
  fill(100, (at) => mkdirSync(at));
  writeFileSync(join(folder, 'a'), '');
  expect(blobsOf(root, '.vscode', 'sha1').map(({ path }) => path)).toEqual(['.vscode/a']);
});
