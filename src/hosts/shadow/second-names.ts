/**
 * Detects that a command may have written a file through a hard link that it made and removed: the kernel reports the
 * write at the name of the link only. A name is held from its first event until it is moved, since a move is reported.
 */
import { CAME, type Change, KIND, NAMES } from '../follower/records.ts';

/** Names that are held. With more, a hard link is assumed. */
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

  /** Whether such a link was possible since the last call. */
  ask(): boolean {
    const isPossible = this.#isPossible;
    this.#isPossible = false;
    this.#came.clear();
    return isPossible;
  }
}
