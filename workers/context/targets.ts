/** Files to write: their present state, and how their content is replaced. */
import * as fs from 'node:fs';
import { closing } from '../../src/base/disk.ts';
import { ToolError } from '../../src/base/errors.ts';
import type { ToolJob } from '../../src/hosts/job.ts';
import type { CheckedTarget, EntryType } from '../../src/tools/tool.ts';
import { type Changes, type DirEntry, exists, toChangeError, writeNew } from '../undo/changes.ts';
import { below, codeOf, outside, toAccessError } from './anchor.ts';
import { hashOf, readAll } from './files.ts';
import type { HeldPath } from './held-paths.ts';

const { O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = fs.constants;

const MODE_OF_NEW = 0o644;

/**
 * The type of the present entry; a link counts as a link. Undefined for nothing. Throws INPUT_INVALID for a name that
 * is too long, ACCESS_DENIED.
 */
export function typeAt(spot: DirEntry): EntryType | undefined {
  const stat = statAt(spot);
  return stat && typeOf(stat);
}

/** Fails first for a directory that can be opened but not searched, and for a name that no file system accepts. */
function statAt({ fd, name, path }: DirEntry): fs.Stats | undefined {
  try {
    return fs.lstatSync(below(fd, name), { throwIfNoEntry: false });
  } catch (error) {
    throw toAccessError(error, path);
  }
}

export function typeOf(stat: fs.StatsBase<number | bigint>): EntryType {
  if (stat.isFile()) return 'file';
  if (stat.isDirectory()) return 'directory';
  return stat.isSymbolicLink() ? 'symlink' : 'other';
}

/**
 * The file that would be replaced; undefined for nothing. Throws UNSUPPORTED, ACCESS_DENIED for anything but a
 * regular file, and ALREADY_EXISTS unless `overwrite`.
 */
export function replaceable(spot: DirEntry, overwrite: boolean): fs.Stats | undefined {
  const { path } = spot;
  const stat = statAt(spot);
  if (!stat) return undefined;
  if (stat.isSymbolicLink()) {
    throw new ToolError('ACCESS_DENIED', `\`${path}\` is a symbolic link, and writing through links is refused`, {
      suggestion: 'Write to the file to which it points.',
    });
  }
  if (!stat.isFile()) throw new ToolError('UNSUPPORTED', `\`${path}\` is not a regular file`);
  if (!overwrite) throw exists(path);
  return stat;
}

/** Hash of the present content; undefined for no file. Throws UNSUPPORTED, ACCESS_DENIED, FILE_LIMIT. */
export function hashAt(spot: DirEntry, bytesMax: number): string | undefined {
  const { fd, name, path } = spot;
  if (!replaceable(spot, true)) return undefined;
  let file: number;
  try {
    file = fs.openSync(below(fd, name), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw codeOf(error) === 'ELOOP' ? outside(path) : toAccessError(error, path);
  }
  using _ = closing(file);
  return hashOf(readAll({ fd: file, path, size: fs.fstatSync(file).size }, bytesMax));
}

export interface TargetOptions {
  readonly changes: Changes;
  readonly bytesMax: number;
  /** The contents that a person approved. */
  readonly preImages?: ToolJob['preImages'];
}

/** A held place in the form that tools get. */
export function targetAt(spot: HeldPath, { changes, bytesMax, preImages }: TargetOptions): CheckedTarget {
  const hash = () => hashAt(spot, bytesMax);
  return {
    path: spot.path,
    hash,
    replace: (content, { ifHash, ...options }) => {
      const assertSame = () => {
        if (ifHash !== undefined) assertHash(spot.path, hash(), ifHash);
        if (preImages) assertApproved(preImages, spot.path, hash() ?? null);
      };
      const created = replaceAt(spot, content, { ...options, assertSame }, changes);
      spot.keep();
      return { created };
    },
    [Symbol.dispose]: () => spot[Symbol.dispose](),
  } as CheckedTarget;
}

/** Throws CONFLICT if the hash is not `ifHash`. */
export function assertHash(path: string, hash: string | undefined, ifHash: string): void {
  if (hash === ifHash) return;
  throw new ToolError('CONFLICT', `\`${path}\` is ${hash ?? 'not there'}, not ${ifHash} as ifHash says`, {
    suggestion: 'Read the file again, then decide.',
    details: { hash: hash ?? null },
  });
}

/** Throws APPROVAL_STALE if the content is not the one that was approved. */
export function assertApproved(preImages: ToolJob['preImages'], path: string, now: string | null): void {
  if (!preImages || preImages.some((it) => it.path === path && it.hash === now)) return;
  throw new ToolError('APPROVAL_STALE', `\`${path}\` was changed after the person approved this call`, {
    suggestion: 'Look at what changed, then call again to ask the person again.',
    details: { changed: [`the file ${path}`] },
  });
}

export interface ReplaceOptions {
  readonly mode?: number;
  readonly overwrite: boolean;
  /** Throws if the existing content must not be replaced. */
  assertSame(): void;
}

/**
 * Replaces a file by a temporary file, fsync and rename: readers see the old content or the new, never a mix; hard
 * links keep the old one.
 */
export function replaceAt(spot: DirEntry, content: Uint8Array, options: ReplaceOptions, changes: Changes): boolean {
  const old = replaceable(spot, options.overwrite);
  const { overwrite, assertSame } = options;
  const made = makeReady(spot, { content, mode: options.mode ?? modeAfter(old) }, changes);
  try {
    changes.put(made.name, spot, { type: 'file', overwrite, created: !old, assertSame });
  } finally {
    made.remove();
  }
  return old === undefined;
}

export interface FileContent {
  readonly spot: DirEntry;
  readonly content: Uint8Array;
  assertSame(): void;
}

/** Replaces existing files, all of them or none. */
export function replaceAllAt(files: readonly FileContent[], changes: Changes): void {
  const made: { name: string; remove(): void }[] = [];
  try {
    for (const { spot, content } of files)
      made.push(makeReady(spot, { content, mode: modeAfter(replaceable(spot, true)) }, changes));
    changes.putAll(
      files.map(({ spot, assertSame }, at) => ({ temporary: made[at]?.name as string, to: spot, assertSame })),
    );
  } finally {
    for (const it of made) it.remove();
  }
}

const modeAfter = (old: fs.Stats | undefined): number => (old ? old.mode & 0o777 : MODE_OF_NEW);

/** Writes the new content to disk beside its place; `remove` deletes it if it is no longer needed. */
function makeReady(
  spot: DirEntry,
  { content, mode }: { content: Uint8Array; mode: number },
  changes: Changes,
): { name: string; remove(): void } {
  const { fd, path } = spot;
  const name = changes.temporaryFor(spot);
  const remove = () => fs.rmSync(below(fd, name), { force: true });
  try {
    writeNew(below(fd, name), mode, [content]);
  } catch (error) {
    remove();
    throw toChangeError(error, path);
  }
  return { name, remove };
}
