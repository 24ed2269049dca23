/** What one command met, of the calls on paths that are heard of: bounded, whatever it opens. */
import { normalize } from 'node:path';
import { changesNothing } from '../src/sandbox/path-calls.ts';
import type { MetOften } from '../src/sandbox/path-evidence.ts';
import type { Listener, Notice } from '../src/sandbox/path-notices.ts';
import { type Attempt, isText, type Met, WallMap, type Walls } from '../src/sandbox/path-walls.ts';

/** Calls whose paths are read; of a command that makes more, those that come later are only let go on. */
const NOTICES_MAX = 100_000;
/** Paths that are looked up on the disk, and those among them that lead to a wall by a link if at all: each takes 20 µs. */
const LOOKED_UP_MAX = 1_024;
const LINKS_MAX = 512;
/** Of those outside of the workspace: a command that installs something is told of what it meets in it, too. */
const OUTSIDE_MAX = 256;
/** What is looked up another time, since a link of the same name may lead elsewhere by now. */
const AGAIN_MAX = 512;
/** Of such a path; all of a command are kept. */
const CHARS_MAX = 1_024;
/** As many as a result tells. */
const MET_MAX = 64;

/** The slash says that where it leads is meant, and not the link. */
const OF_ITSELF = /^\/proc\/(?:thread-)?self\/(cwd|root)\/(.*)$/s;

export class PathLog implements Listener {
  readonly #walls: WallMap;
  /** What came of each attempt: a key of #met, or nothing. */
  readonly #tried = new Map<string, string | undefined>();
  readonly #met = new Map<string, Met & { count: number }>();
  #notices = 0;
  #links = 0;
  #outside = 0;
  #lookedAgain = 0;

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

  /** Those of the system last: a result has room for some. */
  get met(): MetOften[] {
    const all = [...this.#met.values()];
    return [...all.filter(({ wall }) => wall !== 'system'), ...all.filter(({ wall }) => wall === 'system')];
  }

  /** `mounted`: what was still mounted at its end; nothing of what was not, since nobody knows what it was refused before. */
  certain(mounted: ReadonlySet<string> = new Set()): MetOften[] {
    return this.met.filter((it) => this.#walls.stands(it, mounted));
  }

  choose({ does, path: written, isLink, base: baseOf }: Notice): Attempt | undefined {
    const walls = this.#walls;
    if (!isText(written)) return undefined;
    const path = ofItself(written);
    // Nobody works in a directory that is hidden, so that a relative path that is read has to name it.
    const isRead = changesNothing(does);
    const isSuspect = isRead && walls.mayMeet(does, path);
    if (isRead && !isSuspect && !this.#mayFollow(path)) return undefined;
    const base = path.startsWith('/') ? '' : baseOf();
    if (base === undefined || !isText(base)) return undefined;
    const whole = base === '' ? path : `${base}/${path}`;
    const mayMeet = isSuspect || (!isRead && walls.mayMeet(does, whole));
    if (whole.length > CHARS_MAX || (!mayMeet && !this.#mayFollow(whole))) return undefined;
    const attempt = { does, path: whole, isLink };
    const key = keyOf(attempt);
    if (this.#tried.has(key)) return this.#chooseAgain(attempt, this.#tried.get(key));
    const isOutside = !walls.mayBeLink(whole);
    if (this.#tried.size >= LOOKED_UP_MAX || (isOutside && this.#outside >= OUTSIDE_MAX)) return undefined;
    if (isOutside) this.#outside += 1;
    else if (!mayMeet) this.#links += 1;
    this.#tried.set(key, undefined);
    this.#onLook();
    return attempt;
  }

  /** What met a wall by its words meets it again; where a link led, or may lead by now, is looked up anew. */
  #chooseAgain(attempt: Attempt, key: string | undefined): Attempt | undefined {
    const met = key === undefined ? undefined : this.#met.get(key);
    const mayHaveChanged = this.#walls.mayBeLink(attempt.path) && !(met && namesWall(attempt.path, met.path));
    if (met && !mayHaveChanged) met.count += 1;
    if (!mayHaveChanged || this.#lookedAgain >= AGAIN_MAX) return undefined;
    this.#lookedAgain += 1;
    this.#onLook();
    return attempt;
  }

  look(attempt: Attempt): void {
    const met = this.#walls.meet(attempt);
    const key = met && `${met.kind} ${met.path}`;
    this.#tried.set(keyOf(attempt), key);
    if (!met || key === undefined) return;
    const known = this.#met.get(key);
    if (known) known.count += 1;
    else if (this.#hasRoomFor(met)) this.#met.set(key, { ...met, count: 1 });
  }

  /** Of the system a command can meet as much as it likes, which is to take no room from what a rule keeps. */
  #hasRoomFor({ wall }: Met): boolean {
    if (this.#met.size < MET_MAX) return true;
    if (wall === 'system') return false;
    const [spare] = [...this.#met].findLast(([, it]) => it.wall === 'system') ?? [];
    return spare !== undefined && this.#met.delete(spare);
  }

  #mayFollow(path: string): boolean {
    return this.#links < LINKS_MAX && this.#walls.mayBeLink(path);
  }
}

const keyOf = ({ does, path, isLink }: Attempt): string => `${does} ${isLink ? 1 : 0} ${path}`;

/** Whether a path names a wall, or something in it, without a link. */
function namesWall(path: string, wall: string): boolean {
  const plain = path.includes('/..') ? '' : normalize(path);
  return plain === wall || plain.startsWith(`${wall}/`);
}

/** What a process says of its own directories by /proc is what it would say without. */
function ofItself(path: string): string {
  if (!path.startsWith('/proc/')) return path;
  const [, where, rest = ''] = OF_ITSELF.exec(path) ?? [];
  if (where === undefined) return path;
  return where === 'root' ? `/${rest}` : `./${rest}`;
}
