import type { Limits } from '../../base/limits.ts';
import type { PinnedFiles } from '../../services/pinned/pin-folder.ts';
import type { CliCaller } from '../connect.ts';

export interface MarketCaller extends CliCaller {
  readonly nowMs: number;
}

/** What a package may hold, and how it is added. */
export interface PackageKind {
  /** The file that is checked and added, relative to the package's folder; empty for the folder itself. */
  readonly target: string;
  /** The files by path, as they are pinned. Throws MarketError. */
  taken(files: ReadonlyMap<string, Buffer>, limits: Limits): PinnedFiles;
  add(
    target: string,
    flags: { readonly json: boolean; readonly sha256: string },
    caller: MarketCaller,
  ): number | Promise<number>;
}
