/** Looks at one entry of the workspace, and keeps the content of a file: by the name of its blob, or as a copy. */
import { createHash } from 'node:crypto';
import type * as fs from 'node:fs';
import { closing } from '../../src/base/disk.ts';
import type { Limits } from '../../src/base/limits.ts';
import { chunksOf } from '../undo/changes.ts';
import type { Copies } from './copies.ts';
import { type Entry, type FileEntry, heldOf, type Kept, type Why } from './entries.ts';
import { oidOf } from './git-objects.ts';
import { type HeldFiles, stampOf } from './held-files.ts';
import type { Repositories } from './repositories.ts';
import type { WorkspaceFiles } from './workspace-files.ts';

export interface ContentsOptions {
  readonly files: WorkspaceFiles;
  readonly copies: Copies;
  readonly held: HeldFiles;
  readonly repositories: Repositories;
  readonly limits: Limits;
  /** Whether the policy keeps a path from being read. */
  isRefused(path: string): boolean;
}

export interface Looking {
  /** What stood there before. */
  readonly old?: Entry | undefined;
  /** Whether something may have changed that the facts of the file don't tell. */
  readonly isDirty: boolean;
  /** Whether git ignores it. */
  readonly isIgnored: boolean;
}

export class Contents {
  readonly #options: ContentsOptions;

  constructor(options: ContentsOptions) {
    this.#options = options;
  }

  /** The entry at a path, by its facts. Not for a directory. */
  look(path: string, stat: fs.Stats, looking: Looking): Entry {
    if (stat.isFile()) return this.#file(path, stat, looking);
    if (!stat.isSymbolicLink()) return { type: 'unknown', why: 'special', isTree: false };
    const target = this.#options.files.link(path);
    return target === undefined ? { type: 'unknown', why: 'unreadable', isTree: false } : { type: 'symlink', target };
  }

  #file(path: string, stat: fs.Stats, { old, isDirty, isIgnored }: Looking): FileEntry {
    const { repositories, limits } = this.#options;
    const base = {
      type: 'file' as const,
      mode: stat.mode & 0o7777,
      bytes: stat.size,
      stamp: stampOf(stat),
    };
    if (this.#options.isRefused(path)) return { ...base, kept: { why: 'policy' } };
    if (isIgnored) return { ...base, kept: this.#held(path, stat, old, 'ignored') };
    const tracked = repositories.tracked(path);
    if (!isDirty && tracked && repositories.isClean(tracked, path, stat))
      return { ...base, kept: { oid: tracked.blob } };
    if (stat.size > limits.shadowFileBytesMax) {
      const hash = isDirty && stat.size <= limits.journalCallBytesMax ? this.#hashOf(path) : undefined;
      return { ...base, kept: this.#held(path, stat, old, 'too-large'), ...(hash !== undefined && { hash }) };
    }
    const content = this.#options.files.read(path, limits.shadowFileBytesMax);
    if (!content) return { ...base, kept: { why: 'unreadable' } };
    const known = old?.type === 'file' && 'oid' in old.kept ? old.kept.oid : tracked?.blob;
    const isBlob = known !== undefined && oidOf(content) === known && repositories.has(known);
    return { ...base, bytes: content.length, ...(isBlob ? { kept: { oid: known } } : this.#copy(content, old)) };
  }

  /** A copy, or the one that there is of the same content. */
  #copy(content: Buffer, old: Entry | undefined): { kept: Kept; hash?: string } {
    const hash = createHash('sha256').update(content).digest('hex');
    if (old?.type === 'file' && 'copy' in old.kept && old.kept.hash === hash) return { kept: old.kept };
    const copy = this.#options.copies.keep(content);
    return copy ? { kept: { copy, hash } } : { kept: { why: 'no-room' }, hash };
  }

  /** A descriptor, or the one that there is of the same content. */
  #held(path: string, stat: fs.Stats, old: Entry | undefined, why: Why): Kept {
    const known = heldOf(old);
    const held = known?.stamp === stampOf(stat) ? known : this.#options.held.hold(path, stat);
    return held ? { why, held } : { why };
  }

  #hashOf(path: string): string | undefined {
    const fd = this.#options.files.open(path);
    if (fd === undefined) return undefined;
    using _ = closing(fd);
    const hash = createHash('sha256');
    for (const chunk of chunksOf(fd, this.#options.limits.journalCallBytesMax)) hash.update(chunk);
    return hash.digest('hex');
  }
}
