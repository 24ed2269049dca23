/**
 * Ends commands that use up the disks that they write to. What is free is told at once, by statfs, where measuring a folder takes seconds;
 * it is looked at ten times a second, and more often while it shrinks fast: a fast disk takes 200 MB between two looks.
 */
import { readdirSync, statfsSync } from 'node:fs';
import type { Limits } from '../../base/limits.ts';
import type { Powers, Timer } from '../../base/powers.ts';
import { bytesWrittenBy } from '../proc.ts';
import { type ExceededLimit, namespaceOf } from '../watchdog.ts';
import type { Size } from './home-parts.ts';

/** Time between two looks, and while the disk shrinks fast. */
const LOOK_MS = 100;
const FAST_LOOK_MS = 10;
/** What a fast disk, or its cache in memory, takes. */
const DISK_BYTES_PER_MS = 4 * 1024 * 1024;
/** Growth that gets blamed for a full disk, and that a folder is measured for. */
export const GROWTH: Size = { bytes: 16 * 1024 * 1024, entries: 1_000 };
/** Bytes that an estimate may be above a bound before it counts, since others write to the disk as well. */
const SLACK_BYTES = 32 * 1024 * 1024;
/** Part of a disk's inodes that commands leave free. */
const ENTRIES_SHARE = 1 / 50;

/** Space and inodes that the disk of a folder has lost. A file system without a number of inodes counts none. */
export class Growth {
  readonly #folder: string;
  #before: Size;
  #last: Size;

  constructor(folder: string) {
    this.#folder = folder;
    this.#before = this.#last = freeOn(folder);
  }

  /** Space and inodes that are free now. */
  get free(): Size {
    return freeOn(this.#folder);
  }

  /** Counts from when so much was free. */
  begin(free = this.free): void {
    this.#before = free;
  }

  get since(): Size {
    const { bytes, entries } = this.free;
    return { bytes: this.#before.bytes - bytes, entries: this.#before.entries - entries };
  }

  /** Time until the next look; the sooner, the less a folder of this size has left before its bound. */
  nextLookMs(measured?: Size, bound?: Size): number {
    const last = this.#last;
    this.#last = this.free;
    if (last.bytes - this.#last.bytes > GROWTH.bytes) return FAST_LOOK_MS;
    const left = measured && bound ? bound.bytes - measured.bytes - this.since.bytes : Infinity;
    return Math.min(Math.max(left / DISK_BYTES_PER_MS, FAST_LOOK_MS), LOOK_MS);
  }

  /** Whether a folder is to be measured again before its time: half of what it had left may be used up. */
  isDue(measured: Size, bound: Size): boolean {
    const { bytes, entries } = this.since;
    return (
      bytes > Math.max(GROWTH.bytes, (bound.bytes - measured.bytes) / 2) ||
      entries > Math.max(GROWTH.entries, (bound.entries - measured.entries) / 2)
    );
  }

  /** Whether a folder is over its bound by all that is known, so that no measurement need be awaited. */
  isOver(measured: Size, bound: Size): boolean {
    return measured.bytes + this.since.bytes > bound.bytes + SLACK_BYTES;
  }
}

function freeOn(folder: string): Size {
  const { bavail, bsize, ffree } = statfsSync(folder);
  return { bytes: bavail * bsize, entries: ffree };
}

/** A command's use of its disks. */
export interface DiskStay extends Disposable {
  /** Set if it was ended since too little is free. */
  readonly exceeded: ExceededLimit | undefined;
  /** Sets the init of its sandbox, by which its processes are known. */
  setInit(init: number): void;
}

interface Staying extends DiskStay {
  readonly growths: ReadonlyMap<string, Growth>;
  readonly onExceeded: () => void;
  exceeded: ExceededLimit | undefined;
  init: number | undefined;
}

export class DiskWatch {
  readonly #limits: Limits;
  readonly #powers: Powers;
  readonly #stays = new Set<Staying>();
  #look: Timer | undefined;

  constructor(limits: Limits, powers: Powers) {
    this.#limits = limits;
    this.#powers = powers;
  }

  /** Watches the disks of these folders until disposed of; calls `onExceeded` at most once, which must end the command. */
  enter(folders: readonly string[], onExceeded: () => void): DiskStay {
    const growths = new Map(folders.map((it) => [it, new Growth(it)]));
    const stay: Staying = {
      growths,
      onExceeded,
      exceeded: undefined,
      init: undefined,
      setInit: (init) => (stay.init = init),
      [Symbol.dispose]: () => {
        this.#stays.delete(stay);
        if (this.#stays.size === 0) this.#look?.cancel();
      },
    };
    this.#stays.add(stay);
    if (this.#stays.size === 1) this.#lookIn(LOOK_MS);
    return stay;
  }

  #lookIn(ms: number): void {
    this.#look = this.#powers.after(ms, () => {
      let next = LOOK_MS;
      for (const stay of this.#stays) {
        if (stay.exceeded) continue;
        for (const [folder, growth] of stay.growths) {
          next = Math.min(next, growth.nextLookMs());
          this.#judge(stay, folder, growth);
        }
      }
      if (this.#stays.size > 0) this.#lookIn(next);
    });
  }

  /** Ends a command if its disk lacks room, and the command used up a good part of it. */
  #judge(stay: Staying, folder: string, growth: Growth): void {
    const { bavail, blocks, bsize, files, ffree } = statfsSync(folder);
    const reserve = Math.min(this.#limits.diskFreeBytesMin, Math.floor((blocks * bsize) / 4));
    const lacksBytes = bavail * bsize < reserve;
    const lacksEntries = ffree < files * ENTRIES_SHARE;
    if (stay.exceeded || !(lacksBytes || lacksEntries)) return;
    const { bytes, entries } = growth.since;
    const isByBytes = lacksBytes && bytes > GROWTH.bytes && bytesWrittenIn(stay.init) > GROWTH.bytes;
    if (!isByBytes && !(entries > GROWTH.entries)) return;
    stay.exceeded = { kind: 'disk', limit: reserve, used: bavail * bsize, enforcedBy: 'watchdog' };
    stay.onExceeded();
  }
}

/** Bytes that all processes of a sandbox wrote to disks, those that have ended and were waited for included. */
function bytesWrittenIn(init: number | undefined): number {
  const namespace = init === undefined ? undefined : namespaceOf(init);
  if (namespace === undefined) return 0;
  const own = readdirSync('/proc').filter((it) => /^\d+$/.test(it) && namespaceOf(Number(it)) === namespace);
  return own.reduce((sum, pid) => sum + bytesWrittenBy(Number(pid)), 0);
}
