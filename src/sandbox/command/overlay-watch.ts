/** Bounds what a running command writes into its overlay: no disk quota limits it. */
import type { Limits } from '../../base/limits.ts';
import type { Powers, Timer } from '../../base/powers.ts';
import type { ExceededLimit } from '../watchdog.ts';
import { Growth } from './disk-watch.ts';
import { type Size, sizesOf } from './home-parts.ts';
import type { Overlay } from './overlay.ts';

/** The pause after a measurement, as a multiple of its duration. */
const MEASURE_SHARE = 10;

export class OverlayWatch implements Disposable {
  /** Set if the overlay grew over its bound. */
  exceeded: ExceededLimit | undefined;
  readonly #upper: string;
  readonly #means: { readonly limits: Limits; readonly powers: Powers };
  readonly #onExceeded: () => void;
  readonly #growth: Growth;
  #timer: Timer | undefined;
  /** Size at the last measurement. */
  #size: Size = { bytes: 0, entries: 0 };
  #measureAtMs: number;
  #isMeasuring = false;
  #isOver = false;

  constructor({ upper }: Overlay, means: { limits: Limits; powers: Powers }, onExceeded: () => void) {
    this.#upper = upper;
    this.#means = means;
    this.#onExceeded = onExceeded;
    this.#growth = new Growth(upper);
    this.#measureAtMs = means.powers.monotonicMs() + means.limits.previewMeasureMs;
    this.#lookLater();
  }

  [Symbol.dispose](): void {
    this.#isOver = true;
    this.#timer?.cancel();
  }

  get #bound(): Size {
    const { previewBytesMax: bytes, previewEntriesMax: entries } = this.#means.limits;
    return { bytes, entries };
  }

  #lookLater(): void {
    const { powers } = this.#means;
    this.#timer = powers.after(this.#growth.nextLookMs(this.#size, this.#bound), () => {
      const wasMeasuring = this.#isMeasuring;
      const isDue = powers.monotonicMs() >= this.#measureAtMs || this.#growth.isDue(this.#size, this.#bound);
      if (isDue && !wasMeasuring) void this.#measure();
      // Others write to the disk as well: what it lost counts only if measuring takes longer than until the next look.
      if (wasMeasuring && this.#growth.isOver(this.#size, this.#bound))
        this.#judge({ ...this.#size, bytes: this.#size.bytes + this.#growth.since.bytes });
      if (!this.#isOver) this.#lookLater();
    });
  }

  async #measure(): Promise<void> {
    const { limits, powers } = this.#means;
    this.#isMeasuring = true;
    const [from, { free }] = [powers.monotonicMs(), this.#growth];
    const [size] = await sizesOf([this.#upper], this.#means);
    this.#isMeasuring = false;
    if (this.#isOver || !size) return;
    // Bytes written during the measurement may be in it or not, so they count as growth as well.
    this.#growth.begin(free);
    this.#size = size;
    this.#measureAtMs =
      powers.monotonicMs() + Math.max(limits.previewMeasureMs, MEASURE_SHARE * (powers.monotonicMs() - from));
    this.#judge(size);
  }

  #judge({ bytes, entries }: Size): void {
    const bound = this.#bound;
    if (bytes <= bound.bytes && entries <= bound.entries) return;
    const isOfBytes = bytes > bound.bytes;
    this.exceeded = {
      kind: isOfBytes ? 'preview' : 'preview-entries',
      limit: isOfBytes ? bound.bytes : bound.entries,
      used: Math.min(isOfBytes ? bytes : entries, Number.MAX_SAFE_INTEGER),
      enforcedBy: 'watchdog',
    };
    this[Symbol.dispose]();
    this.#onExceeded();
  }
}
