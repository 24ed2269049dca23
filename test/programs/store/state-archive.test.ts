/** The archive of a state directory: its files' owners, and a record that is written meanwhile. */
import { execFileSync } from 'node:child_process';
import { chownSync, existsSync, lstatSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { defaultLimits } from '../../../src/base/limits.ts';
import { systemPowers } from '../../../src/base/powers.ts';
import { AuditLog } from '../../../src/store/audit/log.ts';
import { packState, unpackState } from '../../../src/store/state-archive.ts';
import { removeTree, temporaryDir, until } from '../../support/daemon.ts';

let base: string;
beforeEach(() => {
  base = temporaryDir('archive');
});
afterEach(() => removeTree(base));

const folder = (name: string) => {
  const path = join(base, name);
  mkdirSync(path, { recursive: true, mode: 0o700 });
  return path;
};
const OTHERS = 12_345;

async function packed(state: string): Promise<string> {
  const file = join(base, 'state.tgz');
  await packState(state, { file, folder: folder('work'), version: '1' }, systemPowers());
  return file;
}

test('a record that is signed while it is copied verifies', async () => {
  const state = folder('state');
  const writer = new Worker(new URL('../../support/audit-writer.ts', import.meta.url), { workerData: state });
  try {
    await until(() => existsSync(join(state, 'audit.checkpoints')));
    for (let i = 0; i < 15; i++) {
      const fresh = folder(`fresh-${i}`);
      await unpackState(await packed(state), fresh);
      removeTree(join(base, 'work'));
      using log = new AuditLog(join(fresh, 'audit.db'), defaultLimits, systemPowers(), { redact: (it) => it });
      expect(await log.verify()).toMatchObject({ ok: true });
    }
  } finally {
    await writer.terminate();
  }
});

test('checkpoints of a record that is gone are kept: they show that there was one', async () => {
  const state = folder('state');
  writeFileSync(join(state, 'audit.checkpoints'), 'signed\n', { mode: 0o600 });
  const fresh = folder('fresh');
  await unpackState(await packed(state), fresh);
  expect(readFileSync(join(fresh, 'audit.checkpoints'), 'utf8')).toBe('signed\n');
});

describe.runIf(process.getuid?.() === 0)('as root', () => {
  test('undo data keeps the owners and modes of the files that it holds', async () => {
    const spool = folder('state/journal/spool');
    writeFileSync(join(spool, 'before'), 'as it was', { mode: 0o644 });
    writeFileSync(join(spool, 'program'), '', { mode: 0o4755 });
    symlinkSync('before', join(spool, 'link'));
    for (const it of ['before', 'program']) chownSync(join(spool, it), OTHERS, OTHERS);
    const fresh = folder('fresh');
    await unpackState(await packed(join(base, 'state')), fresh);
    const found = (name: string) => lstatSync(join(fresh, 'journal/spool', name));
    expect([found('before').uid, found('before').gid, found('before').mode & 0o7777]).toEqual([OTHERS, OTHERS, 0o644]);
    expect(readFileSync(join(fresh, 'journal/spool/before'), 'utf8')).toBe('as it was');
    expect(found('link').isSymbolicLink()).toBe(true);
    expect([lstatSync(fresh).uid, found('program').uid]).toEqual([0, OTHERS]);
  });

  test("the state of another user becomes root's as a whole", async () => {
    const state = folder('state');
    writeFileSync(join(state, 'operator.token'), 'secret', { mode: 0o600 });
    const file = await packed(state);
    // As that user's own archive has it.
    const other = folder('other');
    await unpackState(file, other);
    for (const it of ['.', 'operator.token', 'backup.json']) chownSync(join(other, it), OTHERS, OTHERS);
    const theirs = join(base, 'theirs.tgz');
    execFileSync('tar', ['--create', '--gzip', '--file', theirs, '--directory', other, '.']);
    const fresh = folder('fresh');
    await unpackState(theirs, fresh);
    expect(existsSync(join(fresh, 'backup.json'))).toBe(true);
    expect(['.', 'operator.token'].map((it) => lstatSync(join(fresh, it)).uid)).toEqual([0, 0]);
  });
});
