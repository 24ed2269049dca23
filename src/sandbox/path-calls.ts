/** The system calls that take a path, as far as they are heard of; x86_64. Needs nothing else: a thread that only hears loads it. */

/**
 * What a call does at a path. `enter` is a read of a directory only, `create` writes what is there or makes it, `touch` only makes it where it is missing, `make` fails
 * where something is, `remove` takes an entry away, `replace` puts another one in its place, `change` is of what is there. `mkdir` makes a folder, `temp` a file without a name in one; `unlink`
 * takes no folder away, `rmdir` nothing else.
 */
export type Does =
  | 'read'
  | 'enter'
  | 'write'
  | 'create'
  | 'touch'
  | 'make'
  | 'mkdir'
  | 'temp'
  | 'remove'
  | 'unlink'
  | 'rmdir'
  | 'replace'
  | 'change';

export const changesNothing = (does: Does | 'unlinkat'): boolean => does === 'read' || does === 'enter';

interface PathArgument {
  /** Which argument holds its address. */
  readonly path: number;
  /** Which one the descriptor of the directory it counts from; the working directory when absent. */
  readonly from?: number;
  /** `open`, `unlinkat`: its flags say it. */
  readonly does: Does | 'open' | 'unlinkat';
  /** Whether a link at its end is what is meant. */
  readonly isLink?: true;
  /** Which argument holds flags that may say so. */
  readonly flags?: number;
}

interface PathCall {
  /** Which argument holds the flags of an open. */
  readonly flags?: number;
  readonly paths: readonly PathArgument[];
}

const made = { path: 0, does: 'make', isLink: true } as const;
const removed = { path: 0, does: 'remove', isLink: true } as const;
const madeFolder = { ...made, does: 'mkdir' } as const;
const replaced = { path: 1, does: 'replace', isLink: true } as const;
const linked = { path: 0, does: 'read', isLink: true } as const;
const changed = { path: 0, does: 'change' } as const;
const at = { path: 1, from: 0 } as const;
const movedAt = [
  { ...removed, ...at },
  { ...replaced, path: 3, from: 2 },
];

export const EXECVE = 59;

/** By number, x86_64. Those that the first filter refuses are left out (openat2, execveat). */
export const PATH_CALLS: ReadonlyMap<number, PathCall> = new Map<number, PathCall>([
  [2, { flags: 1, paths: [{ path: 0, does: 'open' }] }], // open
  [257, { flags: 2, paths: [{ ...at, does: 'open' }] }], // openat
  [85, { paths: [{ path: 0, does: 'create' }] }], // creat
  [EXECVE, { paths: [{ path: 0, does: 'read' }] }], // execve
  [76, { paths: [{ path: 0, does: 'write' }] }], // truncate
  [80, { paths: [{ path: 0, does: 'enter' }] }], // chdir
  [82, { paths: [removed, replaced] }], // rename
  [264, { paths: movedAt }], // renameat
  [316, { paths: movedAt }], // renameat2
  [83, { paths: [madeFolder] }], // mkdir
  [258, { paths: [{ ...madeFolder, ...at }] }], // mkdirat
  [133, { paths: [made] }], // mknod
  [259, { paths: [{ ...made, ...at }] }], // mknodat
  [84, { paths: [{ ...removed, does: 'rmdir' }] }], // rmdir
  [86, { paths: [linked, { ...made, path: 1 }] }], // link
  [
    265,
    {
      paths: [
        { ...linked, ...at },
        { ...made, path: 3, from: 2 },
      ],
    },
  ], // linkat
  [87, { paths: [{ ...removed, does: 'unlink' }] }], // unlink
  [263, { paths: [{ ...removed, ...at, does: 'unlinkat', flags: 2 }] }], // unlinkat
  [88, { paths: [{ ...made, path: 1 }] }], // symlink
  [266, { paths: [{ ...made, path: 2, from: 1 }] }], // symlinkat
  [90, { paths: [changed] }], // chmod
  [268, { paths: [{ ...changed, ...at }] }], // fchmodat
  [452, { paths: [{ ...changed, ...at, flags: 3 }] }], // fchmodat2
  [92, { paths: [changed] }], // chown
  [94, { paths: [{ ...changed, isLink: true }] }], // lchown
  [260, { paths: [{ ...changed, ...at, flags: 4 }] }], // fchownat
  [132, { paths: [changed] }], // utime
  [235, { paths: [changed] }], // utimes
  [261, { paths: [{ ...changed, ...at }] }], // futimesat
  [280, { paths: [{ ...changed, ...at, flags: 3 }] }], // utimensat
]);

/** AT_SYMLINK_NOFOLLOW, of calls that take such flags. */
export const OF_LINK = 0x100;
/** AT_REMOVEDIR. */
export const OF_FOLDER = 0x200;

/** Whether a call changes nothing, so that it is refused only by what is hidden. */
export const readsOnly = ({ paths }: PathCall): boolean =>
  paths.every(({ does }) => does !== 'open' && changesNothing(does));

export const O = {
  WRONLY: 1,
  RDWR: 2,
  CREAT: 0x40,
  EXCL: 0x80,
  TRUNC: 0x200,
  NONBLOCK: 0x800,
  DIRECTORY: 0x10000,
  NOFOLLOW: 0x20000,
  PATH: 0x200000,
};
/** The bit of O_TMPFILE that is not O_DIRECTORY. */
export const TMPFILE = 0x400000;
const WRITES = O.WRONLY | O.RDWR | O.TRUNC;
/** AT_FDCWD, as the low half of an argument. */
export const FROM_CWD = 0xffffff9c;

/** What an open does, by its flags; undefined where it opens no content. */
export function openOf(flags: number): { readonly does: Does; readonly isLink: boolean } | undefined {
  if ((flags & O.PATH) !== 0) return undefined;
  const isLink = (flags & O.NOFOLLOW) !== 0;
  const writes = (flags & WRITES) !== 0;
  if ((flags & TMPFILE) !== 0) return { does: 'temp', isLink };
  // Of a file it is refused whatever it asks for (ENOTDIR); it makes nothing (EINVAL).
  if ((flags & O.DIRECTORY) !== 0) return (flags & O.CREAT) === 0 ? { does: 'enter', isLink } : undefined;
  if ((flags & O.CREAT) === 0) return { does: writes ? 'write' : 'read', isLink };
  if ((flags & O.EXCL) !== 0) return { does: 'make', isLink: true };
  return { does: writes ? 'create' : 'touch', isLink };
}
