/** Resolves program names on this disk. Only calls stat, access and realpath. */
import { accessSync, constants, realpathSync, statSync } from 'node:fs';
import { dirname, isAbsolute } from 'node:path';
import { isSystemPath } from '../target.ts';

/** Folders in which a program is searched for. */
export interface ProgramSearchPath {
  /** Absolute path. */
  readonly workspace: string;
  /** Absolute path; the working directory of the command. */
  readonly cwd: string;
  /** Folders separated by colons as in PATH; the system's folders when absent. */
  readonly path?: string | undefined;
}

/** Identity of one version of a file; numbers are texts, so that they can be hashed and stored. */
export interface FileFingerprint {
  readonly path: string;
  readonly dev: string;
  readonly ino: string;
  readonly size: string;
  readonly mtimeNs: string;
  readonly ctimeNs: string;
}

/** PATH of commands unless configured otherwise. */
const SYSTEM_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';
/** Most folders of a PATH that are searched; a caller may set thousands. */
const FOLDERS_MAX = 32;

/**
 * Resolves a program as a shell would: the absolute real path of what `name` runs, undefined if it does not exist. A link outside the
 * system's folders that leads into them is returned unresolved, since its name says nothing about what it runs. Nothing is cached, since
 * the file may be another one by the next call; six stats take 20 µs.
 */
export function createProgramResolver(
  ownPath = SYSTEM_PATH,
): (name: string, where: ProgramSearchPath) => string | undefined {
  return (name, where) => {
    if (name === '' || name.includes('\0')) return undefined;
    const found = findInPath(name, { ...where, path: where.path ?? ownPath });
    if (found === undefined) return undefined;
    try {
      const real = realpathSync(found);
      const calledBySystem = isSystemPath(realpathSync(dirname(found)), where.workspace);
      return calledBySystem || !isSystemPath(real, where.workspace) ? real : found;
    } catch {
      // ENOENT: the file was removed after it was found.
      return undefined;
    }
  };
}

/** The fingerprint of the file that `path` leads to now; undefined if there is none. */
export function fingerprint(path: string): FileFingerprint | undefined {
  try {
    const { dev, ino, size, mtimeNs, ctimeNs } = statSync(path, { bigint: true });
    return { path, dev: `${dev}`, ino: `${ino}`, size: `${size}`, mtimeNs: `${mtimeNs}`, ctimeNs: `${ctimeNs}` };
  } catch {
    // ENOENT and similar: the file does not exist, or is not visible to us.
    return undefined;
  }
}

function findInPath(name: string, { cwd, path = '' }: ProgramSearchPath): string | undefined {
  if (name.includes('/')) return isProgram(absoluteIn(cwd, name)) ? absoluteIn(cwd, name) : undefined;
  const folders = path.split(':', FOLDERS_MAX).map((it) => absoluteIn(cwd, it || '.'));
  return folders.map((it) => `${it}/${name}`).find(isProgram);
}

/** Joins without normalising: after a link, `..` means the parent of the link's target, as for the kernel. */
const absoluteIn = (cwd: string, path: string) => (isAbsolute(path) ? path : `${cwd}/${path}`);

function isProgram(file: string): boolean {
  try {
    if (!statSync(file, { throwIfNoEntry: false })?.isFile()) return false;
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    // EACCES or ENOTDIR: the shell goes on to the next folder as well.
    return false;
  }
}
