/** Folders whose names have changed since the tree was last brought up to date, and finding them in it. */
import { type Directory, keyOf, plainName } from '../directory.ts';
import { CAME, type Change, KIND, NAMES } from './records.ts';

/** Above this many characters of paths there are too many to note; each path counts for some more. */
const CHARS_MAX = 2_000_000;
const CHARS_EACH = 100;
/** Stands before and between keys of directories of which one is not UTF-8; such a key holds a slash. */
const SEPARATOR = '\0';

export class DirtyFolders {
  #paths = new Set<string>();
  #chars = 0;

  get size(): number {
    return this.#paths.size;
  }

  /** Notes the folders that a change may have changed. `isJudged`: what is in the file matters, too. */
  note(change: Change, isJudged: boolean): void {
    const { kind, folder, name, bytes } = change;
    if (kind & NAMES || isJudged) this.#add(bytes ? keysOf(bytes, -1) : folder);
    // A directory that came, or whose permissions changed, may be another one of the same name.
    if (kind & KIND.isFolder && kind & (CAME | KIND.attributes))
      this.#add(bytes ? keysOf(bytes) : joined(folder, name));
  }

  /** The noted paths for `nearest`, which are then no longer noted; undefined if there were too many. */
  take(): ReadonlySet<string> | undefined {
    const [paths, chars] = [this.#paths, this.#chars];
    this.#paths = new Set();
    this.#chars = 0;
    return chars > CHARS_MAX ? undefined : paths;
  }

  #add(path: string): void {
    if (this.#paths.has(path) || this.#chars > CHARS_MAX) return;
    this.#paths.add(path);
    this.#chars += path.length + CHARS_EACH;
  }
}

/** The directory of the tree at a path, or its nearest parent in the tree, which has at most `depthMax` levels. */
export function nearest(root: Directory, path: string, depthMax: number): Directory {
  const isOfKeys = path.startsWith(SEPARATOR);
  let at = root;
  for (const key of (isOfKeys ? path.slice(1) : path).split(isOfKeys ? SEPARATOR : '/', depthMax)) {
    const next = at.directories.get(key);
    if (!next) return at;
    at = next;
  }
  return at;
}

export const joined = (folder: string, name: string): string => (folder === '' ? name : `${folder}/${name}`);

/** The keys of the way to a name of these bytes, without the last ones. */
function keysOf(bytes: Buffer, end?: number): string {
  // Each byte is one character here.
  const names = bytes.toString('latin1').split('/').slice(0, end);
  return SEPARATOR + names.map((it) => keyOf(plainName(Buffer.from(it, 'latin1')))).join(SEPARATOR);
}
