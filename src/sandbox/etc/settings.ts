/**
 * Settings for the /etc of commands: those that the daemon gives them, and those of the machine in which people may write a credential: commands see those that hold none. They see copies of the texts that
 * were judged, since a file may get a credential later.
 */
import { chmodSync, existsSync, mkdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { holdsCredential, readText } from '../../policy/secrets/ordinary-paths.ts';

const NAMES = [
  'cargo/config.toml',
  'npmrc',
  'pip.conf',
  'gitconfig',
  'wgetrc',
  'maven/settings.xml',
  'maven/toolchains.xml',
];
/** Stands in each file of Maven, and looks like a token. */
const SCHEMA = 'XMLSchema-instance';

/** The folder with our own files for the /etc of commands. */
export const ownEtc = (stateDir: string): string => join(stateDir, 'accounts');

/** Texts by their names below /etc, in place of the machine's. */
export type GivenSettings = Readonly<Record<string, string>>;

/** Writes the files into a folder, which it gives, in place of those of an earlier daemon. `etc` is the machine's folder. */
export function writeSettings(folder: string, bytesMax: number, given: GivenSettings = {}, etc = '/etc'): string {
  for (const name of NAMES) {
    const to = join(folder, name);
    rmSync(to, { force: true });
    if (given[name] !== undefined) {
      mkdirSync(dirname(to), { recursive: true });
      writeFileSync(to, given[name], { mode: 0o644 });
      continue;
    }
    const text = textOf(join(etc, name), bytesMax);
    if (text === undefined || holdsCredential(text.replaceAll(SCHEMA, ''))) continue;
    mkdirSync(dirname(to), { recursive: true });
    writeFileSync(to, text);
    chmodSync(to, mayAllRead(join(etc, name)) ? 0o644 : 0o600);
  }
  return folder;
}

/** The names of the copies in a folder; for folders of other users, only of files that every user may read. */
export const settingsIn = (folder: string, { ofOthers = false } = {}): string[] =>
  NAMES.filter((it) => existsSync(join(folder, it)) && (!ofOthers || isForAll(statSync(join(folder, it)).mode)));

const isForAll = (mode: number): boolean => (mode & 0o004) !== 0;

/** Whether each user may read the file, and enter its folder. */
const mayAllRead = (path: string): boolean =>
  isForAll(statSync(path).mode) && (statSync(dirname(path)).mode & 0o001) !== 0;

function textOf(path: string, bytesMax: number): string | undefined {
  try {
    return readText(path, bytesMax);
  } catch {
    return undefined; // ENOENT, EACCES: the machine has none, or keeps it from us; or it is too large, or no text.
  }
}
