/** What one command met, of the calls on paths that are heard of: bounded, whatever it opens. */
import { changesNothing } from '../src/sandbox/path-calls.ts';
import type { MetOften } from '../src/sandbox/path-evidence.ts';
import type { Listener, Notice } from '../src/sandbox/path-notices.ts';
import { type Attempt, type Met, WallMap, type Walls } from '../src/sandbox/path-walls.ts';

/** Calls whose paths are read; of a command that makes more, those that come later are only let go on. */
const NOTICES_MAX = 100_000;
/** Paths that are looked up on the disk, and those among them that lead to a wall by a link if at all: each takes 20 µs. */
const LOOKED_UP_MAX = 1_024;
const LINKS_MAX = 512;
/** Of such a path; all of a command are kept. */
const CHARS_MAX = 1_024;
/** As many as a result tells. */
const MET_MAX = 64;

const OF_ITSELF = /^\/proc\/(?:thread-)?self\/(cwd|root)(?:\/(.*))?$/s;

export class PathLog implements Listener {
  readonly #walls: WallMap;
  /** What came of each attempt: a key of #met, or nothing. */
  readonly #tried = new Map<string, string | undefined>();
  readonly #met = new Map<string, Met & { count: number }>();
  #notices = 0;
  #links = 0;

  readonly #onLook: () => void;

  /** `onLook` is called before the call goes on whose path will be looked at. */
  constructor(walls: Walls, onLook: () => void = () => {}) {
    this.#onLook = onLook;
    this.#walls = new WallMap(walls);
  }

  get isCurious(): boolean {
    this.#notices += 1;
    return this.#notices <= NOTICES_MAX;
  }

  get met(): MetOften[] {
    return [...this.#met.values()];
  }

  choose({ does, path: written, isLink, base: baseOf }: Notice): Attempt | undefined {
    const walls = this.#walls;
    const path = ofItself(written);
    // Nobody works in a directory that is hidden, so that a relative path that is read has to name it.
    const isRead = changesNothing(does);
    const isSuspect = isRead && walls.mayMeet(does, path);
    if (isRead && !isSuspect && !this.#mayFollow(path)) return undefined;
    const base = path.startsWith('/') ? '' : baseOf();
    if (base === undefined) return undefined;
    const whole = base === '' ? path : `${base}/${path}`;
    const mayMeet = isSuspect || (!isRead && walls.mayMeet(does, whole));
    if (whole.length > CHARS_MAX || (!mayMeet && !this.#mayFollow(whole))) return undefined;
    const attempt = { does, path: whole, isLink };
    const key = keyOf(attempt);
    if (this.#tried.has(key)) {
      this.#again(this.#tried.get(key));
      return undefined;
    }
    if (this.#tried.size >= LOOKED_UP_MAX) return undefined;
    if (!mayMeet) this.#links += 1;
    this.#tried.set(key, undefined);
    this.#onLook();
    return attempt;
  }

  look(attempt: Attempt): void {
    const met = this.#walls.meet(attempt);
    if (!met) return;
    const key = `${met.kind} ${met.path}`;
    this.#tried.set(keyOf(attempt), key);
    if (this.#met.has(key)) this.#again(key);
    else if (this.#met.size < MET_MAX) this.#met.set(key, { ...met, count: 1 });
  }

  #mayFollow(path: string): boolean {
    return this.#links < LINKS_MAX && this.#walls.mayBeLink(path);
  }

  #again(key: string | undefined): void {
    const met = key === undefined ? undefined : this.#met.get(key);
    if (met) met.count += 1;
  }
}

const keyOf = ({ does, path, isLink }: Attempt): string => `${does} ${isLink ? 1 : 0} ${path}`;

/** What a process says of its own directories by /proc is what it would say without. */
function ofItself(path: string): string {
  if (!path.startsWith('/proc/')) return path;
  const [, where, rest = ''] = OF_ITSELF.exec(path) ?? [];
  if (where === undefined) return path;
  return where === 'root' ? `/${rest}` : `./${rest}`;
}
