/** The owners of a state directory's files in its archive. */
import { execFileSync } from 'node:child_process';
import { chownSync, existsSync, lstatSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { systemPowers } from '../../../src/base/powers.ts';
import { packState, unpackState } from '../../../src/store/state-archive.ts';
import { removeTree, temporaryDir } from '../../support/daemon.ts';

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
