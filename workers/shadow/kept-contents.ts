/** Reads what was kept of files, when the command that changed them is over. */
import type { Limits } from '../../src/base/limits.ts';
import type { Copies } from './copies.ts';
import type { FileEntry, Kept, PathChange } from './entries.ts';
import { blobOfLoose } from './git-objects.ts';
import type { HeldFile, HeldFiles } from './held-files.ts';
import type { Repositories } from './repositories.ts';

export interface KeptContentsOptions {
  readonly copies: Copies;
  readonly held: HeldFiles;
  readonly repositories: Repositories;
  readonly limits: Limits;
}

const LOOSE = /\/objects\/([0-9a-f]{2})\/([0-9a-f]{38})$/;

export class KeptContents {
  readonly #changes: readonly PathChange[];
  readonly #options: KeptContentsOptions;
  /** Loose objects that the command removed, by their ids. */
  #loose: Map<string, FileEntry> | undefined;

  constructor(changes: readonly PathChange[], options: KeptContentsOptions) {
    this.#changes = changes;
    this.#options = options;
  }

  /** The content of a file; undefined if it was not kept. */
  of({ kept, bytes }: FileEntry): Buffer | undefined {
    const { copies, held, repositories, limits } = this.#options;
    if ('copy' in kept) return whole(copies.read(kept.copy));
    if ('why' in kept) {
      const file = this.unchanged(kept);
      return file && whole(held.read(file));
    }
    const content =
      repositories.read(kept.oid, limits.shadowFileBytesMax) ?? this.#removedBlob(kept.oid, limits.shadowFileBytesMax);
    // A filter of git made the file another than its blob.
    return content?.length === bytes ? content : undefined;
  }

  /** The open file of an entry, if it was not changed in place. */
  unchanged(kept: Kept): HeldFile | undefined {
    const file = 'why' in kept ? kept.held : undefined;
    return file && this.#options.held.isAsHeld(file) ? file : undefined;
  }

  /** A blob that was a loose object before the command removed it. */
  #removedBlob(oid: string, bytesMax: number): Buffer | undefined {
    this.#loose ??= new Map(
      this.#changes.flatMap(({ path, pre }) => {
        const [, folder, name] = LOOSE.exec(path) ?? [];
        return pre?.type === 'file' && folder !== undefined ? [[`${folder}${name}`, pre] as const] : [];
      }),
    );
    const entry = this.#loose.get(oid);
    const packed = entry && 'copy' in entry.kept ? this.of(entry) : undefined;
    return packed && blobOfLoose(oid, packed, bytesMax);
  }
}

const whole = (chunks: Iterable<Uint8Array>): Buffer => Buffer.concat([...chunks].map((it) => Buffer.from(it)));
