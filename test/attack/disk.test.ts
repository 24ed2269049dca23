/** Commands that fill a disk: in the workspace, in their home, in a preview. Each ends at its bound, and the person's disk keeps its reserve. */
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, statfsSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { dataOf, startDaemon, type TestDaemon, temporaryDir, until } from '../support/daemon.ts';

const MiB = 1024 * 1024;
/** Above a bound: what a fast disk takes between two looks. */
const OVER_BYTES = 200 * MiB;
const BOUND_BYTES = 128 * MiB;
const RESERVE_BYTES = 300 * MiB;

/** What undo keeps lies on the same disk here, and has its own bounds. */
const UNDO = { shadowBytesMax: 16 * MiB, journalCallBytesMax: 4 * MiB };

/** Ways to take 20 GB of a disk, in a folder. */
const WAYS: readonly [name: string, script: string][] = [
  [
    'fallocate -l 20G',
    'for i in $(seq 40); do fallocate -n -l 20G f$i; fallocate -l 512M g$i || head -c 512M /dev/zero > g$i; done',
  ],
  ['files of 512 MiB', 'for i in $(seq 40); do head -c 512M /dev/zero > f$i || exit; done'],
  [
    'holes that are filled by a mapping',
    `python3 -c "
import mmap
for i in range(40):
  f = open('m%d' % i, 'w+b'); f.truncate(512 << 20); m = mmap.mmap(f.fileno(), 0)
  for at in range(0, 512 << 20, 4096): m[at] = 1
"`,
  ],
  [
    'two writers at once',
    'for j in 1 2; do (for i in $(seq 20); do head -c 512M /dev/zero > $j-$i || exit; done) & done; wait',
  ],
  [
    'a million small files',
    `perl -e 'for $d (1 .. 1000) { mkdir $d; for (1 .. 1000) { open F, ">", "$d/$_" or exit 1; print F "x" x 8000; close F } }'`,
  ],
];

/** `du` fails beside its figure when a file is removed while it looks. */
const bytesOf = (folder: string): number =>
  Number(spawnSync('du', ['-s', '--block-size=1', folder], { encoding: 'utf8' }).stdout.split('\t')[0]);
const freeOf = (folder: string): number => {
  const { bavail, bsize } = statfsSync(folder);
  return bavail * bsize;
};

test.skipIf(process.getuid?.() !== 0).each([
  ['root', undefined, WAYS.slice(0, 1)],
  ['another user', { uid: 64_123, gid: 64_123 }, WAYS],
] as const)(
  'a command of %s that fills a disk ends at the bound of the workspace, the home and the preview',
  { timeout: 240_000 },
  async (_, owner, ways) => {
    await using disk = mountDisk();
    const [workspace, stateDir] = ['ws', 'state'].map((it) => join(disk.folder, it)) as [string, string];
    for (const it of [workspace, stateDir]) mkdirSync(it, { mode: 0o700 });
    const limits = {
      diskFreeBytesMin: RESERVE_BYTES,
      homeBytesMax: BOUND_BYTES,
      previewBytesMax: BOUND_BYTES,
      ...UNDO,
    };
    await using daemon = await startDaemon({ workspace, stateDir, limits, ...(owner && { owner }) });
    await using client = await daemon.connect();
    for (const [name, script] of ways) {
      const run = (command: string, options = {}) =>
        client.call('terminal_execute', { command, timeout: 60_000 }, options);
      const refused = { success: false, error: { code: 'FILE_LIMIT' } };

      {
        using watched = watchFree(workspace);
        expect(await run(`mkdir d && cd d && ${script}`), `${name} in the workspace`).toMatchObject(refused);
        expect(watched.least, `${name} in the workspace`).toBeGreaterThan(RESERVE_BYTES - OVER_BYTES);
      }
      rmSync(join(workspace, 'd'), { recursive: true });

      const before = freeOf(workspace);
      {
        using watched = watchFree(workspace);
        expect(await run(`mkdir ~/d && cd ~/d && ${script}`), `${name} in the home`).toMatchObject(refused);
        expect(before - watched.least, `${name} in the home`).toBeLessThan(BOUND_BYTES + OVER_BYTES);
      }
      await until(() => bytesOf(join(stateDir, 'homes')) < BOUND_BYTES);

      const empty = freeOf(workspace);
      {
        using watched = watchFree(workspace);
        expect(await run(script, { preview: true }), `${name} in a preview`).toMatchObject(refused);
        expect(empty - watched.least, `${name} in a preview`).toBeLessThan(BOUND_BYTES + OVER_BYTES);
      }
      await until(() => freeOf(workspace) > empty - 16 * MiB);
    }
  },
);

/** The fewest bytes that were free in `folder` while this looked, every 5 ms, until it is disposed of. */
function watchFree(folder: string): Disposable & { readonly least: number } {
  let least = freeOf(folder);
  const looking = setInterval(() => (least = Math.min(least, freeOf(folder))), 5);
  return {
    get least() {
      return least;
    },
    [Symbol.dispose]: () => clearInterval(looking),
  };
}

/** A file system of its own, which no other program fills. */
function mountDisk(): AsyncDisposable & { readonly folder: string } {
  const folder = temporaryDir('disk');
  const [image, at] = [join(folder, 'image'), join(folder, 'at')];
  writeFileSync(image, '');
  truncateSync(image, 1280 * MiB);
  execFileSync('mkfs.ext4', ['-q', '-N', '400000', '-m', '0', image]);
  mkdirSync(at);
  execFileSync('mount', ['-o', 'loop', image, at]);
  execFileSync('chmod', ['711', folder, at]);
  return {
    folder: at,
    async [Symbol.asyncDispose]() {
      execFileSync('umount', ['--lazy', at]);
      rmSync(folder, { recursive: true });
    },
  };
}

describe('without fallocate', () => {
  let daemon: TestDaemon;
  let client: Client;
  beforeAll(async () => {
    daemon = await startDaemon();
    client = await daemon.connect();
  });
  afterAll(async () => {
    await client[Symbol.asyncDispose]();
    await daemon[Symbol.asyncDispose]();
  });
  const has = (program: string) =>
    execFileSync('sh', ['-c', `command -v ${program} || true`], { encoding: 'utf8' }) !== '';
  const output = async (command: string) =>
    (await dataOf(client.call('terminal_execute', { command, timeout: 110_000 }))).stdout;

  test('sqlite writes its databases', async () => {
    expect(
      await output(`python3 -c "
import sqlite3
c = sqlite3.connect('x.db'); c.execute('pragma journal_mode = wal'); c.execute('create table t (a)')
c.executemany('insert into t values (?)', [('x' * 1000,)] * 5000); c.commit(); print(c.execute('select count(*) from t').fetchone()[0])"`),
    ).toBe('5000\n');
  });

  test.skipIf(!has('go'))("Go's linker writes its programs", { timeout: 120_000 }, async () => {
    writeFileSync(join(daemon.workspace, 'main.go'), 'package main\n\nfunc main() { println("linked") }\n');
    expect(await output('go build -o linked main.go && ./linked 2>&1')).toBe('linked\n');
  });

  test.skipIf(!has('initdb'))('PostgreSQL makes its cluster and starts', { timeout: 120_000 }, async () => {
    const steps = [
      'export PATH=/usr/lib/postgresql/$(ls /usr/lib/postgresql | tail -1)/bin:$PATH',
      'initdb -D pg -U me --no-sync >/dev/null',
      'pg_ctl -D pg -w -l log -o "-k /tmp" start >/dev/null',
      'psql -h /tmp -U me -tc "create table t as select generate_series(1, 100000)" postgres',
      'pg_ctl -D pg stop >/dev/null',
    ];
    expect(await output(steps.join(' && '))).toContain('SELECT 100000');
    expect(readFileSync(join(daemon.workspace, 'pg/PG_VERSION'), 'utf8')).toMatch(/^\d+/);
  });
});
