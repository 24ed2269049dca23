/** Notes everything that a job reads, so that its result can be served again while all of it is unchanged. */
import type { BigIntStats } from 'node:fs';
import type { Witness } from '../../src/hosts/job.ts';

/** A change this soon after a look may leave the times as they were seen: clocks of file systems tick every 4 to 10 ms. */
const TICK_MS = 50;
/** The same for file systems whose times are whole seconds. */
const COARSE_TICK_MS = 2100;

export class Witnesses {
  readonly #byPath = new Map<string, Witness>();
  readonly #max: number;
  readonly #now: () => number;
  #isWhole = true;

  constructor(max: number, now: () => number) {
    this.#max = max;
    this.#now = now;
  }

  /** Notes one look; call it before reading. `isLink`: the link was not followed. */
  add(path: string, look: () => BigIntStats | undefined, isLink = false): void {
    if (!this.#isWhole) return;
    const at = this.#now();
    const stat = look();
    const mark = stat && `${stat.dev}:${stat.ino}:${stat.size}:${stat.mtimeNs}:${stat.ctimeNs}`;
    const key = isLink ? `l:${path}` : path;
    const before = this.#byPath.get(key);
    const isSettled = stat !== undefined && changedBefore(stat, at);
    if (!mark || !isSettled || (before && before.mark !== mark) || this.#byPath.size >= this.#max) return this.giveUp();
    this.#byPath.set(key, { path, mark, isLink });
  }

  /** Gives up, because something was read that can't be witnessed. */
  giveUp(): void {
    this.#isWhole = false;
    this.#byPath.clear();
  }

  /** All witnesses; undefined if not everything that was read is witnessed. */
  get all(): Witness[] | undefined {
    return this.#isWhole && this.#byPath.size > 0 ? [...this.#byPath.values()] : undefined;
  }
}

function changedBefore({ ctimeNs }: BigIntStats, atMs: number): boolean {
  const isCoarse = ctimeNs % 1_000_000_000n === 0n;
  return Number(ctimeNs / 1_000_000n) + (isCoarse ? COARSE_TICK_MS : TICK_MS) < atMs;
}
