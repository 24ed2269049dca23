/**
 * Finds the files of a workspace to which rules on secrets do not apply because of what they hold: settings without a credential, keys in
 * the repository's objects. Checked again for each command.
 */
import { basename } from 'node:path';
import type { Limits } from '../base/limits.ts';
import { isJudgedByContent, isOrdinary } from '../policy/secrets/ordinary-paths.ts';
import type { Directory, Listing } from './directory.ts';

export class SettingsFiles {
  /** Folders with such files, and how many each has, up to a bound. */
  readonly #folders = new Map<Directory, number>();
  readonly #limits: Limits;
  readonly #workspace: string;

  /** `workspace` is absolute and without links. */
  constructor(workspace: string, limits: Limits) {
    this.#workspace = workspace;
    this.#limits = limits;
  }

  /** Adds to a folder's listing the files that tell no secret. Folders beyond the bound get none. */
  judged(folder: Directory, listing: Listing): Listing {
    const names = listing.files.filter(isJudgedByContent);
    this.#folders.delete(folder);
    const { settingsFoldersMax, settingsFilesMax } = this.#limits;
    const others = [...this.#folders.values()].reduce((sum, it) => sum + it, 0);
    if (names.length === 0 || this.#folders.size >= settingsFoldersMax || others + names.length > settingsFilesMax)
      return listing;
    this.#folders.set(folder, names.length);
    const ordinary = this.#ordinaryOf(folder, names);
    return ordinary.length === 0 ? listing : { ...listing, ordinary };
  }

  /** Folders in which a file gained or lost a credential. Compares contents, since an agent can set the times of a file. */
  changed(): Directory[] {
    return [...this.#folders.keys()].filter((folder) => {
      const { files, ordinary = [] } = folder.listing;
      return this.#ordinaryOf(folder, files.filter(isJudgedByContent)).join('/') !== ordinary.join('/');
    });
  }

  /** Whether a change of `path` may change the result. */
  concerns(path: string): boolean {
    return isJudgedByContent(basename(path));
  }

  delete(folder: Directory): void {
    this.#folders.delete(folder);
  }

  clear(): void {
    this.#folders.clear();
  }

  /** The files that tell no secret; none in a folder whose name is not UTF-8. */
  #ordinaryOf({ at, path }: Directory, names: readonly string[]): string[] {
    if (typeof at !== 'string') return [];
    return names.filter((name) => isOrdinary(this.#workspace, path === '' ? name : `${path}/${name}`, this.#limits));
  }
}
