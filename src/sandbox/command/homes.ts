/**
 * Keeps the homes of a workspace's commands, on an execute host's side: folders on disk, one for each policy, kept between commands,
 * and beside them the /tmp of each session.
 * No disk quota limits them, so they are measured while commands run. A command that takes a home over its bound is ended; when
 * no command runs, the largest parts of homes that are more than half full are removed.
 */

import { mkdirSync, readdirSync, rmSync, statfsSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Limits } from '../../base/limits.ts';
import type { Powers, Timer } from '../../base/powers.ts';
import { removeTrees } from '../../base/remove-trees.ts';
import type { ExceededLimit } from '../watchdog.ts';
import { GROWTH, Growth } from './disk-watch.ts';
import { moveAway, partNames, type Size, sizesOf } from './home-parts.ts';

/** Shortest time between two measurements; a fast disk takes about 1 GiB in that time. */
const MEASURE_MS = 1_000;
/** Longest time without a measurement for commands that seem to write little. */
const MEASURED_MS = 60_000;
/** The pause after a measurement, as a multiple of its duration: large homes take seconds. */
const MEASURE_SHARE = 20;
/** Homes with more parts are removed whole. */
const PARTS_MAX = 1_000;
/** Removed parts that a result lists. */
const TOLD_MAX = 8;
/** Names beside the homes: what is being removed, and marks of hosts whose commands run. No home's name begins with a dot. */
const TRASH = '.removed';
const MARK = '.busy-';
/** Each measurement renews the marks; an older mark belongs to a host that died. */
const MARK_OLD_MS = 60_000;

/** Files of /tmp that `SETTINGS_IN_SCRATCH` in launcher.ts names. */
const SETTINGS = ['.wgetrc', '.gitconfig'];

export interface HomesOptions {
  /** Folder that holds the homes and nothing else; absolute. */
  readonly folder: string;
  readonly limits: Limits;
  readonly powers: Powers;
}

/** Names of the folders that a command's HOME and /tmp are; without `tmp` it has a /tmp in memory, which ends with it. */
export interface HomeNames {
  readonly home: string;
  readonly tmp?: string;
}

/** A command's stay in a home. */
export interface HomeStay extends Disposable {
  /** Set if the home grew over its bound while the command was in it. */
  readonly exceeded: ExceededLimit | undefined;
  /** Parts of the home that were removed before the command began, relative to the home. */
  readonly removed: readonly string[];
}

interface HomeUse extends HomeStay {
  readonly names: HomeNames;
  exceeded: ExceededLimit | undefined;
  readonly onExceeded: () => void;
}

export class Homes {
  readonly #options: HomesOptions;
  readonly #mark: string;
  readonly #made = new Set<string>();
  readonly #stays = new Set<HomeUse>();
  #sizes: ReadonlyMap<string, Size> = new Map();
  readonly #removed = new Map<string, string[]>();
  #look: Timer | undefined;
  #measuring: Promise<void> | undefined;
  #measureAt = 0;
  #measuredAt = -Infinity;
  /** Use since the last measurement, so that what many short commands write adds up. */
  readonly #growth: Growth;
  /** Use since commands run, or since a measurement while they do. */
  readonly #running: Growth;

  constructor(options: HomesOptions) {
    this.#options = options;
    this.#growth = new Growth(options.folder);
    this.#running = new Growth(options.folder);
    this.#mark = join(options.folder, `${MARK}${options.powers.uuid()}`);
  }

  /** The folder of a home; created if missing. */
  pathOf(name: string): string {
    const path = join(this.#options.folder, name);
    if (!this.#made.has(name)) mkdirSync(path, { recursive: true, mode: 0o700 });
    this.#made.add(name);
    return path;
  }

  /** The folder of a session's /tmp. The settings to which variables of commands point are there, since wget and git demand them. */
  tmpOf(name: string): string {
    if (this.#made.has(name)) return this.pathOf(name);
    const path = this.pathOf(name);
    for (const it of SETTINGS)
      try {
        // Follows no link that a command of an earlier host may have left.
        writeFileSync(join(path, it), '', { flag: 'wx', mode: 0o600 });
      } catch {
        // EEXIST. For other errors, the program that needs the file says so.
      }
    return path;
  }

  /** Enters a home until disposed of; calls `onExceeded` at most once, which must end the command. */
  enter(names: HomeNames, onExceeded: () => void): HomeStay {
    if (this.#stays.size === 0) this.#begin();
    const removed = this.#removed.get(names.home) ?? [];
    this.#removed.delete(names.home);
    const stay: HomeUse = {
      names,
      removed,
      onExceeded,
      exceeded: undefined,
      [Symbol.dispose]: () => {
        if (!this.#stays.delete(stay) || this.#stays.size > 0) return;
        this.#look?.cancel();
        void this.#settle();
      },
    };
    this.#stays.add(stay);
    return stay;
  }

  get folder(): string {
    return this.#options.folder;
  }

  #begin(): void {
    this.#running.begin();
    this.#measureAt = Math.max(this.#measureAt, this.#now() + MEASURE_MS);
    this.#lookLater();
  }

  #now(): number {
    return this.#options.powers.monotonicMs();
  }

  get #bound(): Size {
    const { homeBytesMax: bytes, homeEntriesMax: entries } = this.#options.limits;
    return { bytes, entries };
  }

  get #lacksRoom(): boolean {
    const { bavail, bsize } = statfsSync(this.#options.folder);
    return bavail * bsize < this.#options.limits.diskFreeBytesMin;
  }

  get #size(): Size {
    return { bytes: sum(this.#sizes, 'bytes'), entries: sum(this.#sizes, 'entries') };
  }

  #lookLater(): void {
    this.#look = this.#options.powers.after(this.#running.nextLookMs(this.#size, this.#bound), () => {
      if (this.#stays.size === 0) return;
      const isDue = this.#sizes.size === 0 || this.#running.isDue(this.#size, this.#bound);
      if (this.#now() >= this.#measureAt || isDue) void this.#measure().then(() => this.#judge(this.#size));
      // The estimate also counts writes elsewhere on the disk, but a measurement of the home would come too late.
      if (this.#running.isOver(this.#size, this.#bound)) this.#judge(this.#estimate());
      this.#lookLater();
    });
  }

  #estimate(): Size {
    const [{ bytes, entries }, since] = [this.#size, this.#running.since];
    return { bytes: bytes + since.bytes, entries: entries + since.entries };
  }

  /** Ends the commands of the largest home if all together are over their bound. */
  #judge({ bytes, entries }: Size): void {
    const { homeBytesMax, homeEntriesMax } = this.#options.limits;
    const over = bytes > homeBytesMax ? 'bytes' : entries > homeEntriesMax ? 'entries' : undefined;
    if (!over) return;
    const largest = [...this.#sizes].toSorted(([, a], [, b]) => b[over] - a[over])[0]?.[0];
    for (const stay of this.#stays) {
      if (stay.exceeded || (largest !== undefined && !Object.values(stay.names).includes(largest))) continue;
      stay.exceeded =
        over === 'entries'
          ? { kind: 'home-entries', limit: homeEntriesMax, used: entries, enforcedBy: 'watchdog' }
          : { kind: 'home', limit: homeBytesMax, used: bytes, enforcedBy: 'watchdog' };
      stay.onExceeded();
    }
  }

  /** Runs when the last command has ended: measures homes that may have grown, and makes room. */
  async #settle(): Promise<void> {
    const { bytes, entries } = this.#growth.since;
    const isGrown = bytes > GROWTH.bytes || entries > GROWTH.entries;
    const isLarge = [...this.#sizes.values()].some((it) => this.#isLarge(it));
    if (isGrown || isLarge || this.#lacksRoom || this.#now() > this.#measuredAt + MEASURED_MS) {
      await this.#measure();
      await this.#makeRoom();
    }
    if (this.#stays.size === 0) rmSync(this.#mark, { force: true });
  }

  #isLarge({ bytes, entries }: Size): boolean {
    const { homeBytesMax, homeEntriesMax } = this.#options.limits;
    return bytes > homeBytesMax / 2 || entries > homeEntriesMax / 2;
  }

  #measure(): Promise<void> {
    this.#measuring ??= this.#measureNow().finally(() => {
      this.#measuring = undefined;
    });
    return this.#measuring;
  }

  async #measureNow(): Promise<void> {
    const { folder } = this.#options;
    writeFileSync(this.#mark, '');
    const [from, { free }] = [this.#now(), this.#growth];
    const names = readdirSync(folder).filter((it) => !it.startsWith('.'));
    const sizes = await sizesOf(
      names.map((it) => join(folder, it)),
      this.#options,
    );
    this.#sizes = new Map(names.map((name, i) => [name, sizes[i] as Size]));
    const tookMs = this.#now() - from;
    for (const it of [this.#growth, this.#running]) it.begin(free);
    this.#measuredAt = this.#now();
    this.#measureAt = this.#now() + Math.min(Math.max(MEASURE_MS, MEASURE_SHARE * tookMs), MARK_OLD_MS / 2);
  }

  /** Removes the largest parts of large homes, or all parts if the disk is full, unless a command has begun meanwhile. */
  async #makeRoom(): Promise<void> {
    const { folder } = this.#options;
    const lacksRoom = this.#lacksRoom;
    let isRemoved = false;
    for (const [name, size] of this.#sizes) {
      if (!this.#made.has(name) || !(lacksRoom || this.#isLarge(size))) continue;
      const parts = await this.#partsOf(name);
      // Nothing is awaited from here on, so no command of this host can begin in between.
      if (this.#stays.size > 0 || this.#othersRun) return;
      const removed = lacksRoom ? parts.map((it) => it.path) : this.#toRemove(parts, size);
      for (const part of removed)
        moveAway({ home: join(folder, name), part, trash: join(folder, TRASH), as: this.#options.powers.uuid() });
      isRemoved ||= removed.length > 0;
      this.#removed.set(name, [...(this.#removed.get(name) ?? []), ...removed].slice(0, TOLD_MAX));
    }
    this.#sizes = new Map();
    if (isRemoved) await this.#emptyTrash();
  }

  /** Whether another host (for terminals or another policy) has commands in these homes. */
  get #othersRun(): boolean {
    const { folder, powers } = this.#options;
    return readdirSync(folder).some((name) => {
      const path = join(folder, name);
      if (!name.startsWith(MARK) || path === this.#mark) return false;
      return (statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0) > powers.now() - MARK_OLD_MS;
    });
  }

  #toRemove(parts: readonly (Size & { readonly path: string })[], size: Size): string[] {
    const { homeBytesMax, homeEntriesMax } = this.#options.limits;
    const share = (it: Size) => Math.max(it.bytes / homeBytesMax, it.entries / homeEntriesMax);
    let { bytes, entries } = size;
    return parts
      .toSorted((a, b) => share(b) - share(a))
      .flatMap((it) => {
        if (!this.#isLarge({ bytes, entries })) return [];
        bytes -= it.bytes;
        entries -= it.entries;
        return [it.path];
      });
  }

  async #partsOf(name: string): Promise<(Size & { path: string })[]> {
    const home = join(this.#options.folder, name);
    const parts = partNames(home, PARTS_MAX);
    if (!parts) return readdirSync(home).map((path) => ({ path, bytes: Infinity, entries: Infinity }));
    const sizes = await sizesOf(
      parts.map((it) => join(home, it)),
      this.#options,
    );
    return parts.map((path, i) => ({ path, ...(sizes[i] as Size) }));
  }

  /** Empties the trash. Some languages' caches are read-only folders, which must become writable first. */
  async #emptyTrash(): Promise<void> {
    const child = removeTrees([join(this.#options.folder, TRASH)], 'parts of a home', this.#options.powers);
    await new Promise<unknown>((resolve) => child.once('error', resolve).once('exit', resolve));
  }
}

const sum = (sizes: ReadonlyMap<string, Size>, what: keyof Size): number =>
  Math.min(
    [...sizes.values()].reduce((all, it) => all + it[what], 0),
    Number.MAX_SAFE_INTEGER,
  );
