/** What names of programs stand for on this disk. Only looks: stat, access and realpath. */
import { accessSync, constants, realpathSync, statSync } from 'node:fs';
import { dirname, isAbsolute } from 'node:path';
import { isSystemPath } from './target.ts';

/** Where a program is looked for. */
export interface Whereabouts {
  /** Absolute. */
  readonly workspace: string;
  /** Absolute; the directory of the command. */
  readonly cwd: string;
  /** Folders as in PATH, colons between them; those of the system when absent. */
  readonly path?: string | undefined;
}

/** What makes a file the same file as before; big numbers as text, so that it can be hashed and stored. */
export interface Fingerprint {
  readonly path: string;
  readonly dev: string;
  readonly ino: string;
  readonly size: string;
  readonly mtimeNs: string;
  readonly ctimeNs: string;
}

/** The PATH that commands are given where nobody says more. */
const SYSTEM_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';
/** Folders of a PATH that are looked at; a caller may set one of thousands. */
const FOLDERS_MAX = 32;

/**
 * Looks a program up as a shell would: the absolute real path of what `name` runs, undefined when nothing is there. A link
 * outside the system's folders that leads into them is given as it lies: its name says nothing of what it runs.
 * Nothing is remembered, since another file may be there by the next call; six stats take 20 µs.
 */
export function createProgramResolver(ownPath = SYSTEM_PATH): (name: string, where: Whereabouts) => string | undefined {
  return (name, where) => {
    if (name === '' || name.includes('\0')) return undefined;
    const found = find(name, { ...where, path: where.path ?? ownPath });
    if (found === undefined) return undefined;
    try {
      const real = realpathSync(found);
      const calledBySystem = isSystemPath(realpathSync(dirname(found)), where.workspace);
      return calledBySystem || !isSystemPath(real, where.workspace) ? real : found;
    } catch {
      // ENOENT: it went away since it was found.
      return undefined;
    }
  };
}

/** Of the file that `path` leads to, at this moment; undefined when there is none. */
export function fingerprint(path: string): Fingerprint | undefined {
  try {
    const { dev, ino, size, mtimeNs, ctimeNs } = statSync(path, { bigint: true });
    return { path, dev: `${dev}`, ino: `${ino}`, size: `${size}`, mtimeNs: `${mtimeNs}`, ctimeNs: `${ctimeNs}` };
  } catch {
    // ENOENT and its like: no such file, or none that we may see.
    return undefined;
  }
}

function find(name: string, { cwd, path = '' }: Whereabouts): string | undefined {
  if (name.includes('/')) return isProgram(from(cwd, name)) ? from(cwd, name) : undefined;
  const folders = path.split(':', FOLDERS_MAX).map((it) => from(cwd, it || '.'));
  return folders.map((it) => `${it}/${name}`).find(isProgram);
}

/** Not normalised: after a link, `..` is where the link leads, as the kernel sees it. */
const from = (cwd: string, path: string) => (isAbsolute(path) ? path : `${cwd}/${path}`);

function isProgram(file: string): boolean {
  try {
    if (!statSync(file, { throwIfNoEntry: false })?.isFile()) return false;
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    // Not ours to look at or to run (EACCES), or no path (ENOTDIR): the shell goes on to the next folder too.
    return false;
  }
}
