/** Migrations of a state directory, with lists of steps made for these tests. */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { systemPowers } from '../../../src/base/powers.ts';
import { openDatabase } from '../../../src/store/database.ts';
import type { Migration } from '../../../src/store/state-migrations.ts';
import { openState, SchemaError } from '../../../src/store/state-schema.ts';
import { temporaryDir } from '../../support/daemon.ts';

let stateDir: string;
beforeEach(() => {
  stateDir = temporaryDir('schema');
});
afterEach(() => rmSync(stateDir, { recursive: true, force: true }));

const open = (migrations: Migration[], schemaBackupsMax = 2) =>
  openState({ stateDir, version: '9.1.0', limits: { schemaBackupsMax }, powers: systemPowers(), migrations });
const at = (name: string) => join(stateDir, name);
const schema = () => JSON.parse(readFileSync(at('schema.json'), 'utf8')) as { version: number };
const notes = (folder = stateDir) => {
  using database = new DatabaseSync(join(folder, 'notes.db'));
  return database.prepare('SELECT * FROM notes').all();
};

/** A state from before there was a schema file, whose last row is in the write-ahead log only. */
function makeOldState(): void {
  // The process ends without closing the database, as a killed daemon does.
  const code = `const { DatabaseSync } = require('node:sqlite');
    const database = new DatabaseSync(process.argv[1]);
    database.exec('PRAGMA journal_mode = WAL; CREATE TABLE notes (text TEXT)');
    database.exec("INSERT INTO notes VALUES ('first'), ('second')");
    process.kill(process.pid, 'SIGKILL');`;
  expect(() => execFileSync(process.execPath, ['-e', code, at('notes.db')], { stdio: 'ignore' })).toThrow(
    expect.objectContaining({ signal: 'SIGKILL' }),
  );
  expect(statSync(at('notes.db-wal')).size).toBeGreaterThan(0);
  writeFileSync(at('list.json'), '["a"]');
}

const addLength: Migration = {
  files: ['notes.db'],
  run(folder) {
    using database = openDatabase(join(folder, 'notes.db'));
    database.exec('ALTER TABLE notes ADD COLUMN length INTEGER; UPDATE notes SET length = length(text)');
  },
};
const listToText: Migration = {
  files: ['list.json', 'list.txt'],
  run(folder) {
    const list = JSON.parse(readFileSync(join(folder, 'list.json'), 'utf8')) as string[];
    writeFileSync(join(folder, 'list.txt'), list.join('\n'));
  },
};
const failing: Migration = {
  files: ['notes.db'],
  run(folder) {
    using database = openDatabase(join(folder, 'notes.db'));
    database.exec('DELETE FROM notes');
    throw new Error('it broke');
  },
};
const MIGRATED = [
  { text: 'first', length: 5 },
  { text: 'second', length: 6 },
];
const OLD = [{ text: 'first' }, { text: 'second' }];

/** The rows of a backup. */
function unpacked(file: string): unknown {
  const folder = at('unpacked');
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder);
  execFileSync('tar', ['-xzf', file, '-C', folder]);
  return notes(folder);
}

test('a new state gets the newest version without a backup', async () => {
  await open([addLength]);
  expect(schema()).toEqual({ version: 2, writtenBy: '9.1.0' });
  expect(readdirSync(stateDir)).toEqual(['schema.json']);
});

test('a state without the file goes through all steps, after a backup that only its owner can read', async () => {
  makeOldState();
  await open([addLength, listToText]);
  expect([schema(), notes(), readFileSync(at('list.txt'), 'utf8')]).toEqual([
    { version: 3, writtenBy: '9.1.0' },
    MIGRATED,
    'a',
  ]);
  expect(statSync(at('backups/schema-1.tgz')).mode & 0o777).toBe(0o600);
  expect(unpacked(at('backups/schema-1.tgz'))).toEqual(OLD);
  expect(existsSync(at('migrating'))).toBe(false);
});

test('a second start changes nothing', async () => {
  makeOldState();
  await open([addLength]);
  await open([addLength]);
  expect(notes()).toEqual(MIGRATED);
});

test('a step that fails leaves the state as it was, and the error names the backup', async () => {
  makeOldState();
  const error = await open([addLength, failing]).catch((it: Error) => it);
  expect(error).toBeInstanceOf(SchemaError);
  const { message } = error as Error;
  for (const it of ['from schema version 1 to 3: it broke', 'as it was', at('backups/schema-1.tgz')])
    expect(message).toContain(it);
  expect(notes()).toEqual(OLD);
  expect(existsSync(at('schema.json'))).toBe(false);
  expect(existsSync(at('migrating'))).toBe(false);
});

test('a backup that can not be written stops the migration before its first step', async () => {
  makeOldState();
  writeFileSync(at('backups'), 'a file');
  await expect(open([addLength])).rejects.toThrow(/from schema version 1 to 2: .*It is as it was$/);
  expect(notes()).toEqual(OLD);
});

test('a step that leaves a file it did not name is refused', async () => {
  makeOldState();
  const opened = open([{ files: ['notes.db'], run: (folder) => writeFileSync(join(folder, 'other'), '') }]);
  await expect(opened).rejects.toThrow('a migration left other, which is none of its files');
  expect(notes()).toEqual(OLD);
});

test('backups of the oldest versions go when there are too many', async () => {
  makeOldState();
  const steps = [addLength, listToText, { files: [], run: () => {} }];
  for (const count of [1, 2, 3]) await open(steps.slice(0, count));
  expect(readdirSync(at('backups')).sort()).toEqual(['schema-2.tgz', 'schema-3.tgz']);
});

describe('a daemon that was killed', () => {
  /** Opens the state in a process that ends by SIGKILL when a step or the log says so. */
  const killedDuring = (when: 'step' | 'moves') => {
    const code = `
      import { openState } from ${JSON.stringify(join(import.meta.dirname, '../../../src/store/state-schema.ts'))};
      import { DatabaseSync } from 'node:sqlite';
      import fs from 'node:fs';
      import { syncBuiltinESMExports } from 'node:module';
      const die = () => process.kill(process.pid, 'SIGKILL');
      const rename = fs.renameSync;
      fs.renameSync = (from, to) => { if ('${when}' === 'moves' && from.includes('/migrating/notes.db')) die(); rename(from, to); };
      syncBuiltinESMExports();
      const run = (folder) => {
        const database = new DatabaseSync(folder + '/notes.db');
        database.exec('ALTER TABLE notes ADD COLUMN length INTEGER; UPDATE notes SET length = length(text)');
        database.close();
        if ('${when}' === 'step') die();
      };
      const powers = { now: Date.now, log: { info() {} } };
      await openState({ stateDir: process.argv[1], version: '9.1.0', limits: { schemaBackupsMax: 2 }, powers, migrations: [{ files: ['notes.db'], run }] });`;
    const args = ['--input-type=module', '-e', code, stateDir];
    expect(() => execFileSync(process.execPath, args, { stdio: 'pipe' })).toThrow(
      expect.objectContaining({ signal: 'SIGKILL' }),
    );
  };

  test('between backup and new version has changed nothing, and the next start migrates', async () => {
    makeOldState();
    killedDuring('step');
    expect([existsSync(at('schema.json')), existsSync(at('backups/schema-1.tgz')), notes()]).toEqual([
      false,
      true,
      OLD,
    ]);
    await open([addLength]);
    expect([schema().version, notes(), existsSync(at('migrating'))]).toEqual([2, MIGRATED, false]);
  });

  test('a daemon killed while it moved files has them moved by the next start', async () => {
    makeOldState();
    killedDuring('moves');
    expect(schema()).toMatchObject({ version: 2, moves: ['notes.db'] });
    await expect(open([])).rejects.toThrow('has schema version 2');
    await open([addLength]);
    expect([schema(), notes(), existsSync(at('migrating'))]).toEqual([
      { version: 2, writtenBy: '9.1.0' },
      MIGRATED,
      false,
    ]);
  });

  test('a killed migration is refused by the next start when the migrated files are gone', async () => {
    makeOldState();
    killedDuring('moves');
    rmSync(at('migrating'), { recursive: true });
    await expect(open([addLength])).rejects.toThrow('the files of the newer one are gone');
  });
});

test.each([
  ['no JSON', 'text', 'JSON'],
  ['version 0', '{"version":0,"writtenBy":"1"}', 'version'],
  ['half a version', '{"version":1.5,"writtenBy":"1"}', 'version'],
  ['a list', '[]', 'expected object'],
  ['a path that leaves the state', '{"version":1,"writtenBy":"1","moves":["../other"]}', 'must match pattern'],
  ['too many bytes', ' '.repeat(16_385), '16385 bytes of at most 16384'],
])('a schema file with %s is refused, and stays', async (_, text, why) => {
  writeFileSync(at('schema.json'), text);
  const error = (await open([addLength]).catch((it: Error) => it)) as Error;
  expect(error).toBeInstanceOf(SchemaError);
  for (const it of ['schema.json', `in ${stateDir}`, why]) expect(error.message).toContain(it);
  expect(readFileSync(at('schema.json'), 'utf8')).toBe(text);
});
