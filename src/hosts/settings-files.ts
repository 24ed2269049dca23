/**
 * Finds the settings files of a workspace that hold no credential, to which rules on secrets do not apply; checked
 * again for each command.
 */
import { basename } from 'node:path';
import type { Limits } from '../limits.ts';
import { isOrdinary, isSettingsName } from '../policy/ordinary-paths.ts';
import type { Directory, Listing } from './directory.ts';

export class SettingsFiles {
  /** Folders with settings files, up to a bound. */
  readonly #folders = new Set<Directory>();
  readonly #limits: Limits;

  constructor(limits: Limits) {
    this.#limits = limits;
  }

  /** Adds to a folder's listing its settings files without credentials. Folders beyond the bound get none. */
  judged(folder: Directory, listing: Listing): Listing {
    const names = listing.files.filter(isSettingsName);
    const isKnown = this.#folders.has(folder) || this.#folders.size < this.#limits.settingsFoldersMax;
    if (names.length === 0 || !isKnown) {
      this.#folders.delete(folder);
      return listing;
    }
    this.#folders.add(folder);
    const ordinary = this.#ordinaryOf(folder, names);
    return ordinary.length === 0 ? listing : { ...listing, ordinary };
  }

  /** Folders in which a file gained or lost a credential. Compares contents, since an agent can set the times of a file. */
  changed(): Directory[] {
    return [...this.#folders].filter((folder) => {
      const { files, ordinary = [] } = folder.listing;
      return this.#ordinaryOf(folder, files.filter(isSettingsName)).join('/') !== ordinary.join('/');
    });
  }

  /** Whether a change of `path` may change the result. */
  concerns(path: string): boolean {
    return isSettingsName(basename(path));
  }

  delete(folder: Directory): void {
    this.#folders.delete(folder);
  }

  clear(): void {
    this.#folders.clear();
  }

  /** The settings files without credentials; none in a folder whose name is not UTF-8. */
  #ordinaryOf({ at }: Directory, names: readonly string[]): string[] {
    return typeof at === 'string' ? names.filter((name) => isOrdinary(`${at}/${name}`, this.#limits)) : [];
  }
}
