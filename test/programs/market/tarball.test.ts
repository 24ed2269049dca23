import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { defaultLimits } from '../../../src/base/limits.ts';
import { MarketError } from '../../../src/services/market/market-error.ts';
import { readTarball } from '../../../src/services/market/tarball.ts';
import { removeTree, temporaryDir } from '../../support/daemon.ts';
import { type TarEntry, tarOf } from '../../support/npm-registry.ts';

const limits = { ...defaultLimits, marketUnpackedBytesMax: 100_000, marketEntriesMax: 10 };
const read = (archive: Buffer) => readTarball(archive, limits);
const file = (path: string): TarEntry => ({ path, content: 'x' });

test('an archive that tar and npm write is read', () => {
  const folder = temporaryDir('tarball');
  mkdirSync(join(folder, 'package/plugin'), { recursive: true });
  writeFileSync(join(folder, 'package/plugin/find.js'), 'export {};\n');
  writeFileSync(join(folder, 'package/package.json'), '{ "name": "it", "version": "1.0.0" }');
  const byTar = execFileSync('tar', ['-czf', '-', '-C', folder, 'package']);
  const told = execFileSync('npm', ['pack', '--json', '--pack-destination', folder], { cwd: join(folder, 'package') });
  const [{ filename }] = JSON.parse(told.toString()) as [{ filename: string }];
  const byNpm = execFileSync('cat', [join(folder, filename)]);
  for (const it of [byTar, byNpm]) expect([...read(it).keys()].sort()).toEqual(['package.json', 'plugin/find.js']);
  expect(read(byTar).get('plugin/find.js')?.toString()).toBe('export {};\n');
  removeTree(folder);
});

test.each([
  ['leads out by dots', [file('package/../../evil.js')], 'is no path below its folder'],
  ['begins at the root', [file('/etc/evil')], 'is no path below its folder'],
  ['has a backslash', [file('package/..\\evil.js')], 'is no path below its folder'],
  ['has no folder', [file('evil.js')], 'is no path below its folder'],
  ['is a symbolic link', [{ path: 'package/a', type: '2', link: '/etc/passwd' }], 'is no regular file (type "2")'],
  ['is a hard link', [{ path: 'package/a', type: '1', link: '../../a' }], 'is no regular file (type "1")'],
  ['is a device', [{ path: 'package/a', type: '3' }], 'is no regular file'],
  ['is a GNU long name', [{ path: 'package/a', type: 'L', content: '../../a' }], 'is no regular file'],
  ['comes twice', [file('package/a.js'), file('other/a.js')], 'is in the archive twice'],
  ['gets another path', [{ path: 'h', type: 'x', content: '21 path=package/../b\n' }], 'sets the path of a file'],
  ['is one of too many', Array.from({ length: 11 }, (_, i) => file(`package/${i}`)), 'more than 10 entries'],
])('a file that %s makes the archive refused', (_, entries: readonly TarEntry[], message) => {
  expect(() => read(tarOf(entries))).toThrow(message);
});

test('a bomb, a cut archive, a wrong checksum and other bytes are refused', () => {
  expect(() => read(gzipSync(Buffer.alloc(200_000)))).toThrow('more than 100000 bytes unpacked');
  expect(() => read(Buffer.from('PK'))).toThrow('no gzip file');
  const header = Buffer.alloc(512, 0x41);
  expect(() => read(gzipSync(header))).toThrow(MarketError);
  const [whole] = [Buffer.from(tarOf([{ path: 'package/a', content: 'x'.repeat(2000) }]))];
  expect(read(whole).size).toBe(1);
});

test('whatever the bytes are, they are read or refused', () => {
  const bytes = fc.uint8Array({ maxLength: 4096 }).map((it) => gzipSync(it));
  const shuffled = fc
    .array(fc.record({ path: fc.string({ maxLength: 100 }), type: fc.constantFrom('0', '1', '2', '5', 'x', 'g') }))
    .map((entries) => tarOf(entries));
  fc.assert(
    fc.property(fc.oneof(bytes, shuffled), (archive) => {
      try {
        for (const path of read(archive).keys()) expect(path.split('/')).not.toContain('..');
      } catch (error) {
        expect(error).toBeInstanceOf(MarketError);
      }
    }),
  );
});
