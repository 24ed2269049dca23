/** Measures what a running command writes into its overlay: no disk quota limits it. */
import type { Limits } from '../../limits.ts';
import type { Powers, Timer } from '../../powers.ts';
import type { ExceededLimit } from '../watchdog.ts';
import { sizesOf } from './home-parts.ts';
import type { Overlay } from './overlay.ts';

/** The pause after a measurement, as a multiple of its duration. */
const MEASURE_SHARE = 10;

export class OverlayWatch implements Disposable {
  /** Set if the overlay grew over its bound. */
  exceeded: ExceededLimit | undefined;
  readonly #upper: string;
  readonly #means: { readonly limits: Limits; readonly powers: Powers };
  readonly #onExceeded: () => void;
  #timer: Timer | undefined;
  #isOver = false;

  constructor({ upper }: Overlay, means: { limits: Limits; powers: Powers }, onExceeded: () => void) {
    this.#upper = upper;
    this.#means = means;
    this.#onExceeded = onExceeded;
    this.#measureIn(means.limits.previewMeasureMs);
  }

  [Symbol.dispose](): void {
    this.#isOver = true;
    this.#timer?.cancel();
  }

  #measureIn(ms: number): void {
    if (!this.#isOver) this.#timer = this.#means.powers.after(ms, () => void this.#measure());
  }

  async #measure(): Promise<void> {
    const { limits, powers } = this.#means;
    const from = powers.monotonicMs();
    const [size] = await sizesOf([this.#upper], this.#means);
    if (this.#isOver || !size) return;
    const { previewBytesMax: bytesMax, previewEntriesMax: entriesMax } = limits;
    if (size.bytes > bytesMax || size.entries > entriesMax) {
      const isOfBytes = size.bytes > bytesMax;
      this.exceeded = {
        kind: isOfBytes ? 'preview' : 'preview-entries',
        limit: isOfBytes ? bytesMax : entriesMax,
        used: Math.min(isOfBytes ? size.bytes : size.entries, Number.MAX_SAFE_INTEGER),
        enforcedBy: 'watchdog',
      };
      return this.#onExceeded();
    }
    this.#measureIn(Math.max(limits.previewMeasureMs, MEASURE_SHARE * (powers.monotonicMs() - from)));
  }
}
