/** Makes the passwd and group of commands: the system's accounts, and the one that they run as, whose home is theirs. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { HOME } from '../mount.ts';

/** Below it are the accounts of programs; above it those of persons, but for `nobody`. */
const PERSONS_FROM = 1000;
const NOBODY = 65534;

interface Ids {
  readonly uid: number;
  readonly gid: number;
}

/** The lines of a file of the machine, in fields; none if it has no such file. */
function linesOf(path: string): string[][] {
  try {
    return readFileSync(path, 'utf8')
      .split('\n')
      .map((it) => it.split(':'))
      .filter((it) => it.length > 2);
  } catch {
    return []; // ENOENT: a container without accounts.
  }
}

const isOfSystem = ([, , id]: readonly string[]): boolean => Number(id) < PERSONS_FROM || Number(id) === NOBODY;

/** Commands in a folder of root are shown as root, so root's home is theirs too. */
function passwdOf({ uid, gid }: Ids): string {
  const machine = linesOf('/etc/passwd');
  const [name = 'sandbox'] = machine.find(([, , id]) => Number(id) === uid) ?? [];
  const homed = [['root', '0', '0'], ...(uid === 0 ? [] : [[name, `${uid}`, `${gid}`]])];
  const own = homed.map(([it, ...ids]) => [it, 'x', ...ids, '', HOME, '/bin/bash']);
  const others = machine.filter((it) => isOfSystem(it) && !homed.some(([, id]) => id === it[2]));
  return textOf([...own, ...others]);
}

function groupOf({ gid }: Ids): string {
  const machine = linesOf('/etc/group');
  const own = machine.find(([, , id]) => Number(id) === gid) ?? ['sandbox', 'x', `${gid}`];
  const shown = [own, ...machine.filter((it) => it !== own && isOfSystem(it))];
  // Members are left out: they name persons of the machine, and a command can join no group by being one.
  return textOf(shown.map(([name = '', , id = '']) => [name, 'x', id, '']));
}

const textOf = (lines: readonly (readonly (string | undefined)[])[]): string =>
  `${lines.map((it) => it.join(':')).join('\n')}\n`;

/** Writes both into a folder for the user that commands are shown as, and gives that folder. */
export function writeAccounts(folder: string, ids: Ids): string {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  writeFileSync(join(folder, 'passwd'), passwdOf(ids));
  writeFileSync(join(folder, 'group'), groupOf(ids));
  return folder;
}
