/**
 * Notices that a file may have been written through a second name that was made for it and taken away again: no change is
 * told at its first name then. Names of files are watched from when they come until they are moved, which is told.
 */
import { CAME, type Change, KIND, NAMES } from '../follower/records.ts';

/** Names that are held; with more, a second name is taken for possible. */
const NAMES_MAX = 1_000;

export class SecondNames {
  readonly #came = new Set<string>();
  #isPossible = false;

  take({ folder, name, kind }: Change): void {
    if (this.#isPossible || !(kind & NAMES)) return;
    const path = `${folder}/${name}`;
    // In a new folder names can come and go before it is watched.
    const isNewFolder = (kind & KIND.isFolder) !== 0 && (kind & KIND.created) !== 0;
    const wasTaken = this.#came.has(path) && !(kind & KIND.movedOut);
    if (isNewFolder || wasTaken || this.#came.size >= NAMES_MAX) this.#isPossible = true;
    else if (kind & CAME) this.#came.add(path);
    else this.#came.delete(path);
  }

  /** Whether there may have been one since the last call. */
  ask(): boolean {
    const isPossible = this.#isPossible;
    this.#isPossible = false;
    this.#came.clear();
    return isPossible;
  }
}
