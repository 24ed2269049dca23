/** Counts of durations by buckets. */
import type { Sample } from './families.ts';

export class Histogram {
  readonly #bounds: readonly number[];
  readonly #counts: number[];
  #sum = 0;

  /** `bounds`: upper bounds of the buckets in ascending order, in seconds. */
  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
    this.#counts = new Array<number>(bounds.length + 1).fill(0);
  }

  observe(seconds: number): void {
    let at = 0;
    while (at < this.#bounds.length && seconds > (this.#bounds[at] as number)) at += 1;
    this.#counts[at] = (this.#counts[at] as number) + 1;
    this.#sum += seconds;
  }

  samples(labels: Record<string, string>): Sample[] {
    let total = 0;
    const buckets = this.#counts.map((count, at) => {
      total += count;
      const le = at < this.#bounds.length ? `${this.#bounds[at]}` : '+Inf';
      return { suffix: '_bucket', labels: { ...labels, le }, value: total };
    });
    return [...buckets, { suffix: '_sum', labels, value: this.#sum }, { suffix: '_count', labels, value: total }];
  }
}
