import { chmodSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { findUserDirs, makeStateDir, StateDirError } from '../../../src/daemon/user-dirs.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync('/tmp/ringfence-places-');
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const modeOf = (path: string) => statSync(path).mode & 0o7777;

describe('the state directory', () => {
  test("a new or empty state directory becomes its owner's alone", () => {
    makeStateDir(join(folder, 'new/state'));
    expect(modeOf(join(folder, 'new/state'))).toBe(0o700);
    mkdirSync(join(folder, 'empty'), { mode: 0o755 });
    makeStateDir(join(folder, 'empty'));
    expect(modeOf(join(folder, 'empty'))).toBe(0o700);
  });

  test('a state directory whose mode was opened is closed again', () => {
    const state = join(folder, 'state');
    makeStateDir(state);
    writeFileSync(join(state, 'daemon.lock'), '');
    chmodSync(state, 0o755);
    makeStateDir(state);
    expect(modeOf(state)).toBe(0o700);
  });

  test.each([
    ['with files of others', 0o755, ['notes.txt']],
    ['sticky, as /tmp is', 0o1777, []],
    ['sticky, and used as one before', 0o1777, ['daemon.lock']],
  ])('a state directory open to others (%s) is refused and keeps its mode', (_, mode, names) => {
    const shared = join(folder, 'shared');
    mkdirSync(shared);
    for (const name of names) writeFileSync(join(shared, name), '');
    chmodSync(shared, mode);
    expect(() => makeStateDir(shared)).toThrow(StateDirError);
    expect(() => makeStateDir(shared)).toThrow(`--state ${join(shared, 'ringfence')}`);
    expect(() => makeStateDir(shared)).not.toThrow(/chmod/);
    expect(modeOf(shared)).toBe(mode);
  });
});

test('an empty variable of XDG or ours counts as none', () => {
  const env = { HOME: '/home/ada', XDG_STATE_HOME: '', XDG_CONFIG_HOME: '', XDG_RUNTIME_DIR: '', RINGFENCE_STATE: '' };
  expect(findUserDirs({}, env)).toEqual(findUserDirs({}, { HOME: '/home/ada' }));
  expect(findUserDirs({}, { HOME: '' }).home).toBe(userInfo().homedir);
});
