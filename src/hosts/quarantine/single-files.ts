/**
 * Single protected files (`.envrc`) whose text stands so in a commit of the person. git replaces such a file by removing it first, which
 * no mount allows, so commands get it as it is. What they make of it is a newcomer like any other, and the text is put back.
 */
import * as fs from 'node:fs';
import { openToRead } from '../../base/disk.ts';
import type { Powers } from '../../base/powers.ts';
import { isProtectedName } from '../../base/protected-names.ts';
import { type Blob, hashOf } from './blobs.ts';
import type { KnownPaths } from './own-folders.ts';
import { atEntry, isThere, printOf } from './trees.ts';

/** Files of one command, and bytes of each; others stay read-only. */
const FILES_MAX = 16;
const BYTES_MAX = 256 * 1024;
const FOUND_MAX = 1_000;

export interface SingleFile {
  readonly path: string;
  readonly print: string;
  readonly mode: number;
  readonly text: Buffer;
}

/** Finds which files with these hashes stand so in commits of the person. */
type Find = (toFiles: (hash: 'sha1' | 'sha256') => readonly Blob[]) => Promise<KnownPaths>;

export class SingleFiles {
  readonly #workspace: string;
  readonly #powers: Pick<Powers, 'uuid'>;
  /** Answers by path, as long as file and commits are the same. */
  readonly #found = new Map<string, { readonly of: string; readonly isKnown: boolean }>();

  constructor(workspace: string, powers: Pick<Powers, 'uuid'>) {
    this.#workspace = workspace;
    this.#powers = powers;
  }

  /** The files that a command gets as they are, of these paths. */
  async lend(paths: readonly string[], commits: readonly string[], find: Find): Promise<Map<string, SingleFile>> {
    const names = paths.filter((it) => isProtectedName(it)).slice(0, FILES_MAX);
    const files = names.flatMap((it) => this.read(it) ?? []);
    const among = commits.join();
    const fresh = files.filter(({ path, print }) => this.#found.get(path)?.of !== `${print} ${among}`);
    const { known, missing } = await find((hash) => fresh.map((it) => this.#blobOf(it, hash)));
    for (const { path, print } of fresh) {
      const isKnown = known.has(path);
      // Without an answer, the next command asks again.
      if (this.#found.size >= FOUND_MAX) this.#found.clear();
      if (isKnown || missing.has(path)) this.#found.set(path, { of: `${print} ${among}`, isKnown });
    }
    const isLent = ({ path, print }: SingleFile) => {
      const { of, isKnown } = this.#found.get(path) ?? {};
      return of === `${print} ${among}` && isKnown === true;
    };
    return new Map(files.filter(isLent).map((it) => [it.path, it]));
  }

  /** Puts files back that a command removed, unless another commit of the person has none there; gives their paths. */
  async endOf(lent: Iterable<SingleFile>, find: Find): Promise<string[]> {
    const gone = [...lent].filter(({ path }) => !this.isThere(path));
    const { known, missing } = await find((hash) => gone.map((it) => this.#blobOf(it, hash)));
    const isLost = ({ path }: SingleFile) => !(known.has(path) && missing.has(path));
    return gone.filter((it) => isLost(it) && this.restore(it) !== undefined).map(({ path }) => path);
  }

  /** Files that hold something else than they did. */
  changedAmong(lent: Iterable<SingleFile>): string[] {
    return [...lent].filter((it) => this.isThere(it.path) && !this.isAsItWas(it)).map(({ path }) => path);
  }

  /** The file at a path; undefined if it is none, has a second link or is too large. */
  read(path: string): SingleFile | undefined {
    try {
      return atEntry(this.#workspace, path, (at) => {
        using opened = openToRead(at);
        const stat = fs.fstatSync(opened.fd);
        if (!stat.isFile() || stat.nlink !== 1 || stat.size > BYTES_MAX) return undefined;
        return { path, print: printOf(at) ?? '', mode: stat.mode & 0o777, text: fs.readFileSync(opened.fd) };
      });
    } catch {
      return undefined; // ENOENT, ELOOP, EACCES: it is gone, a link, or closed to us.
    }
  }

  /** Whether the path holds what it held, by the dates of the file, or at least by its text. */
  isAsItWas({ path, print, text, mode }: SingleFile): boolean {
    try {
      if (atEntry(this.#workspace, path, (at) => printOf(at)) === print) return true;
    } catch {
      return false; // ENOENT, ENOTDIR, ELOOP: its folder is gone.
    }
    const now = this.read(path);
    return now !== undefined && now.mode === mode && now.text.equals(text);
  }

  isThere(path: string): boolean {
    return isThere(this.#workspace, path);
  }

  /** Puts a text back where nothing is; gives what tells whether it is still there. */
  restore({ path, text, mode }: SingleFile): string | undefined {
    const put = (at: string, folder: string) => {
      const tmp = `${folder}/.ringfence-${this.#powers.uuid()}`;
      fs.writeFileSync(tmp, text, { mode, flag: 'wx' });
      fs.linkSync(tmp, at);
      fs.rmSync(tmp);
      return printOf(at);
    };
    try {
      return atEntry(this.#workspace, path, put, true);
    } catch {
      return undefined; // EEXIST: a command made it again, which is a newcomer. ENOTDIR, ELOOP: it put something else there.
    }
  }

  #blobOf({ path, text }: SingleFile, hash: 'sha1' | 'sha256'): Blob {
    return { path, blob: hashOf(text, hash) };
  }
}
