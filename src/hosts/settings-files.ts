/** Which settings files of a workspace hold no credential, so that rules on secrets don't mean them; looked at anew for each command. */
import { basename } from 'node:path';
import { defaultLimits as limits } from '../limits.ts';
import { isOrdinary, isSettingsName } from '../policy/ordinary.ts';
import type { Directory, Listing } from './directory.ts';

export class SettingsFiles {
  /** Folders that hold such files, as far as they are looked at. */
  readonly #folders = new Set<Directory>();

  /** The listing of a folder with those of its files that hold none. In folders beyond the bound there are none of those. */
  judged(folder: Directory, listing: Listing): Listing {
    const names = listing.files.filter(isSettingsName);
    const isKnown = this.#folders.has(folder) || this.#folders.size < limits.settingsFoldersMax;
    if (names.length === 0 || !isKnown) {
      this.#folders.delete(folder);
      return listing;
    }
    this.#folders.add(folder);
    const ordinary = ordinaryOf(folder, names);
    return ordinary.length === 0 ? listing : { ...listing, ordinary };
  }

  /** Folders in which a file got a credential, or lost it. Contents are compared, since an agent can set the times of a file. */
  changed(): Directory[] {
    return [...this.#folders].filter((folder) => {
      const { files, ordinary = [] } = folder.listing;
      return ordinaryOf(folder, files.filter(isSettingsName)).join('/') !== ordinary.join('/');
    });
  }

  /** Whether a change of what lies at `path` may change that. */
  concerns(path: string): boolean {
    return isSettingsName(basename(path));
  }

  delete(folder: Directory): void {
    this.#folders.delete(folder);
  }

  clear(): void {
    this.#folders.clear();
  }
}

/** None in a folder whose name is not UTF-8. */
const ordinaryOf = ({ at }: Directory, names: readonly string[]): string[] =>
  typeof at === 'string' ? names.filter((name) => isOrdinary(`${at}/${name}`)) : [];
