/** What is heard of a command's calls on paths, and what comes of it: the filter, the walls, the bounds. */
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { NO_MASKS } from '../../../src/sandbox/masks.ts';
import { type Does, openOf, PATH_CALLS, readsOnly } from '../../../src/sandbox/path-calls.ts';
import { pathFilter } from '../../../src/sandbox/path-filter.ts';
import { GREETING_BYTES, greetingOf, tokenOf } from '../../../src/sandbox/path-greeting.ts';
import { pathProgram } from '../../../src/sandbox/path-program.ts';
import { WallMap, type Walls } from '../../../src/sandbox/path-walls.ts';
import { PathLog } from '../../../workers/path-log.ts';
import { ARCH, judge } from '../../support/bpf.ts';

const OPEN = 2;
const OPENAT = 257;
const AT_FDCWD = -100n;
const [RDONLY, WRONLY, RDWR, CREAT, EXCL, TRUNC] = [0, 1, 2, 0x40, 0x80, 0x200];
const [NONBLOCK, DIRECTORY, NOFOLLOW, CLOEXEC, PATH] = [0x800, 0x10000, 0x20000, 0x80000, 0x200000];

describe('the filter', () => {
  const [reading, writing] = [pathFilter({ reads: true }), pathFilter({ reads: false })];

  test.each([
    ['that reads', CLOEXEC, 'tell', 'allow'],
    ['of a directory', DIRECTORY | CLOEXEC | NONBLOCK, 'tell', 'allow'],
    ['that writes', WRONLY, 'tell', 'tell'],
    ['that makes', WRONLY | CREAT | TRUNC | CLOEXEC, 'tell', 'tell'],
    ['that makes without waiting', WRONLY | CREAT | NONBLOCK, 'tell', 'tell'],
    ['of a terminal', RDWR | NONBLOCK, 'allow', 'allow'],
  ])('of an open %s', (_, flags, whenReading, whenWriting) => {
    for (const [filter, verdict] of [
      [reading, whenReading],
      [writing, whenWriting],
    ] as const) {
      expect(judge(filter, { nr: OPEN, args: [0, flags] })).toBe(verdict);
      expect(judge(filter, { nr: OPENAT, args: [AT_FDCWD, 0, flags] })).toBe(verdict);
      expect(judge(filter, { nr: OPENAT, args: [3, 0, flags] })).toBe(verdict);
    }
  });

  test('lets all other calls go on, and those of another architecture', () => {
    const called = fc.integer({ min: 0, max: 600 }).filter((nr) => !PATH_CALLS.has(nr));
    fc.assert(fc.property(called, (nr) => judge(reading, { nr }) === 'allow'));
    expect(judge(reading, { nr: OPEN, arch: ARCH.i386 })).toBe('allow');
  });

  test('tells every call of its table, whatever its paths count from; one that changes nothing where reads are told of', () => {
    for (const [nr, call] of PATH_CALLS) {
      for (const from of [AT_FDCWD, 5n]) {
        const args = Array.from({ length: 6 }, () => from);
        expect([nr, judge(reading, { nr, args })]).toEqual([nr, 'tell']);
        expect([nr, judge(writing, { nr, args })]).toEqual([nr, readsOnly(call) ? 'allow' : 'tell']);
      }
    }
  });

  test.each<[string, number, Does | undefined, boolean?]>([
    ['reads', RDONLY | CLOEXEC, 'read', false],
    ['enters', DIRECTORY, 'enter', false],
    ['would write a directory', DIRECTORY | WRONLY, 'enter', false],
    ['writes', RDWR, 'write', false],
    ['writes or makes', WRONLY | CREAT, 'create', false],
    ['makes', WRONLY | CREAT | EXCL, 'make', true],
    ['only makes what is missing', RDONLY | CREAT, 'touch', false],
    ['reads no link', NOFOLLOW, 'read', true],
    ['opens no content', PATH, undefined],
    ['makes no directory', DIRECTORY | WRONLY | CREAT, undefined],
    ['makes a file without a name', DIRECTORY | WRONLY | 0x400000, 'temp', false],
  ])('an open that %s', (_, flags, does, isLink) => {
    expect(openOf(flags)).toEqual(does && { does, isLink });
  });
});

test('a greeting names its command, and fits what the program sends', () => {
  for (const token of [1, 0xabc, 0x7fff_ffff]) {
    const [name, value] = greetingOf(token, true);
    const bytes = Buffer.from(`${name}=${value}`);
    expect(bytes.length).toBe(GREETING_BYTES);
    expect(tokenOf(bytes)).toBe(token);
  }
  expect(pathProgram({ line: 5, self: 6 }).subarray(0, 4).toString('latin1')).toBe('\x7fELF');
});

describe('the walls', () => {
  let root: string;
  let walls: Walls;
  beforeAll(() => {
    root = realpathSync(mkdtempSync(join(tmpdir(), 'ringfence-walls-')));
    for (const it of ['ws/sub', 'ws/vault/in', 'ws/held', 'system', 'secret'])
      mkdirSync(join(root, it), { recursive: true });
    for (const it of ['ws/.env', 'ws/held/a', 'ws/plain', 'system/file', 'secret/file'])
      writeFileSync(join(root, it), '');
    symlinkSync('../../secret/file', join(root, 'ws/sub/out'));
    symlinkSync('../../system/file', join(root, 'ws/sub/system'));
    symlinkSync('loop', join(root, 'ws/sub/loop'));
    symlinkSync('../plain', join(root, 'ws/vault/link'));
    walls = {
      workspace: `${root}/ws`,
      system: [`${root}/system`],
      masks: {
        hidden: [
          { path: '.env', type: 'file' },
          { path: 'vault', type: 'directory' },
        ],
        readOnly: ['held'],
        pinned: ['sub'],
      },
    };
  });
  afterAll(() => rmSync(root, { recursive: true }));

  const meet = (does: Does, path: string) => new WallMap(walls).meet({ does, path: `${root}/${path}`, isLink: false });
  const met = (kind: 'read' | 'write', path: string, wall: string) => ({ kind, path: `${root}/${path}`, wall });

  test('are met by what they refuse, and by nothing else', () => {
    expect(meet('read', 'ws/sub/../.env')).toEqual(met('read', 'ws/.env', 'hidden'));
    expect(meet('make', 'ws/.env')).toBeUndefined();
    expect(meet('enter', 'ws/.env')).toBeUndefined();
    expect(meet('write', 'ws/held/a')).toEqual(met('write', 'ws/held/a', 'held'));
    expect(meet('read', 'ws/held/a')).toBeUndefined();
    expect(meet('write', 'ws/held/none')).toBeUndefined();
    expect(meet('create', 'ws/held/none')).toEqual(met('write', 'ws/held/none', 'held'));
    expect(meet('make', 'ws/held/a')).toBeUndefined();
    expect(meet('make', 'ws/held/none/none')).toBeUndefined();
    expect(meet('remove', 'ws/sub')).toEqual(met('write', 'ws/sub', 'pinned'));
    expect(meet('write', 'ws/plain')).toBeUndefined();
    expect(meet('write', 'ws/sub/system')).toEqual(met('write', 'system/file', 'system'));
    expect(meet('read', 'ws/sub/loop')).toBeUndefined();
  });

  test('are not met by what fails without them', () => {
    const fails: (readonly [Does, string])[] = [
      ...(['write', 'create', 'touch', 'unlink', 'mkdir'] as const).map((it) => [it, 'ws/vault'] as const),
      ...(['rmdir', 'temp', 'mkdir'] as const).map((it) => [it, 'ws/.env'] as const),
      ...(['create', 'touch', 'make'] as const).map((it) => [it, 'ws/held/none/'] as const),
      ...[['rmdir', 'ws/held/.'] as const, ['rmdir', 'ws/held/..'] as const, ['rmdir', 'ws/held/a'] as const],
      ...[['unlink', 'ws/held'] as const, ['unlink', 'ws/sub'] as const, ['temp', 'ws/held/a'] as const],
      ...[['read', 'ws/.env/'] as const, ['write', 'ws/held/a/'] as const],
      ['create', `ws/held/${'x'.repeat(256)}`],
    ];
    for (const [does, path] of fails) expect([does, path, meet(does, path)]).toEqual([does, path, undefined]);
    expect(meet('mkdir', 'ws/held/none/')).toEqual(met('write', 'ws/held/none', 'held'));
    expect(meet('temp', 'ws/held')).toEqual(met('write', 'ws/held', 'held'));
    expect(meet('unlink', 'ws/held/a')).toEqual(met('write', 'ws/held/a', 'held'));
    expect(meet('rmdir', 'ws/sub')).toEqual(met('write', 'ws/sub', 'pinned'));
    expect(meet('rmdir', 'ws/vault')).toEqual(met('write', 'ws/vault', 'hidden'));
  });

  test('say the same of all that is in a hidden folder', () => {
    const all = ['', '/in', '/in/none', '/none', '/none/none', '/link', '/link/none', '/../vault/in'];
    for (const it of all) expect(meet('read', `ws/vault${it}`)).toEqual(met('read', 'ws/vault', 'hidden'));
  });

  test('say nothing of what the command does not see', () => {
    for (const path of ['secret/file', 'secret/none', 'ws/sub/out', 'ws/sub/../../secret/file', '../../etc/shadow'])
      for (const does of ['read', 'write', 'remove', 'change'] as const) expect(meet(does, path)).toBeUndefined();
  });

  test('of a command that names paths without end are kept and looked up in bounds', () => {
    const log = new PathLog(walls);
    let looked = 0;
    const hear = (path: string, does: Does = 'read') => {
      if (!log.isCurious) return;
      const attempt = log.choose({ does, path, isLink: false, base: () => walls.workspace });
      if (attempt) looked += 1;
      if (attempt) log.look(attempt);
    };
    for (let i = 0; i < 150_000; i++) hear(i % 2 ? `no-wall-${i}` : `vault/../.env/${i}`);
    hear(`${'./'.repeat(2000)}.env`);
    expect(looked).toBeLessThanOrEqual(1024);
    expect(log.met.length).toBeLessThanOrEqual(64);
    const other = new PathLog(walls);
    for (let i = 0; i < 500; i++) {
      const path = `/usr/${'x/../'.repeat(150)}${i}`;
      const attempt = other.choose({ does: 'create', path, isLink: false, base: () => undefined });
      if (attempt) other.look(attempt);
    }
    expect(other.met).toEqual([]);
  });

  test('outside of the workspace leave room for those in it', () => {
    const log = new PathLog({ ...walls, system: ['/usr'] });
    const hear = (does: Does, path: string) => {
      const attempt = log.choose({ does, path, isLink: false, base: () => walls.workspace });
      if (attempt) log.look(attempt);
    };
    for (let i = 0; i < 2000; i++) hear('create', `/usr/of-${i}`);
    hear('read', '.env');
    expect(log.met[0]).toEqual({ ...met('read', 'ws/.env', 'hidden'), count: 1 });
    expect(log.met).toHaveLength(64);
  });

  test('met again are counted, however often', () => {
    const log = new PathLog({ ...walls, masks: { ...NO_MASKS, hidden: walls.masks.hidden } });
    for (const path of ['.env', './.env', '.env', `${root}/ws/.env`, '/proc/self/cwd/.env']) {
      const attempt = log.choose({ does: 'read', path, isLink: false, base: () => walls.workspace });
      if (attempt) log.look(attempt);
    }
    expect(log.met).toEqual([{ ...met('read', 'ws/.env', 'hidden'), count: 5 }]);
  });
});
