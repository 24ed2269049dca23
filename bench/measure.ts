/** Measures subjects in turns: rounds with turns of each; two subjects are compared by the ratio in each round. */

import { setTimeout } from 'node:timers/promises';

export type Subject = () => unknown;

/** Milliseconds of each turn, grouped by round. */
export type Taken = readonly (readonly number[])[];

/** Spread of a figure over the rounds: median, and minimum and maximum without the outer tenths. */
export interface Spread {
  readonly median: number;
  readonly low: number;
  readonly high: number;
  /** The minimum of all rounds, which varies least between two runs of the same code. */
  readonly best: number;
}

export interface Turns {
  readonly rounds: number;
  /** Successive turns of each subject in a round. */
  readonly times: number;
  /** Uncounted rounds at the start; 1 by default. V8 compiles hot code: a daemon's rate is stable after 40 000 calls. */
  readonly warmRounds?: number;
  /** Uncounted pause in ms before each turn, like an agent's pauses, in which a daemon prepares for the next call. */
  readonly pauseMs?: number;
}

/**
 * Runs the rounds. Each has turns of all subjects, since the machine's speed changes by the second, and a floor from
 * another second would say nothing. Rejects with a subject's error.
 */
export async function inTurns<Name extends string>(
  subjects: Record<Name, Subject>,
  { rounds, times, warmRounds = 1, pauseMs = 0 }: Turns,
): Promise<Record<Name, Taken>> {
  const names = Object.keys(subjects) as Name[];
  const taken = Object.fromEntries(names.map((it) => [it, []])) as unknown as Record<Name, number[][]>;
  for (let round = -warmRounds; round < rounds; round++) {
    for (const name of names) {
      const all: number[] = [];
      for (let i = 0; i < times; i++) {
        if (pauseMs > 0) await setTimeout(pauseMs);
        const from = performance.now();
        const running = subjects[name]();
        // An `await` without need would cost more than some subjects do.
        if (running instanceof Promise) await running;
        all.push(performance.now() - from);
      }
      if (round >= 0) taken[name].push(all);
    }
  }
  return taken;
}

/** A subject that runs another `times` times, always `inFlight` of them at once. */
export const together =
  (run: Subject, { inFlight, times }: { readonly inFlight: number; readonly times: number }) =>
  async (): Promise<void> => {
    let left = times;
    const lane = async () => {
      while (left-- > 0) await run();
    };
    await Promise.all(Array.from({ length: inFlight }, lane));
  };

/** A quantile of unsorted numbers; NaN for none. */
export function quantile(all: readonly number[], share: number): number {
  const sorted = all.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

export const median = (all: readonly number[]): number => quantile(all, 0.5);

/** Ratio of one subject's time to another's, round by round. */
export const ratioOf = (subject: Taken, floor: Taken): Spread =>
  spreadOf(subject.map((round, at) => median(round) / median(floor[at] as readonly number[])));

export const spreadOf = (all: readonly number[]): Spread => ({
  median: median(all),
  low: quantile(all, 0.1),
  high: quantile(all, 0.9),
  best: Math.min(...all),
});

/** Least-squares line through points: `y` grows by `slope` per `x`; `error` is the standard error of the slope. */
export function fit(points: readonly (readonly [x: number, y: number])[]): { slope: number; error: number } {
  const n = points.length;
  const mean = (at: 0 | 1) => points.reduce((sum, it) => sum + it[at], 0) / n;
  const [meanX, meanY] = [mean(0), mean(1)];
  const spread = points.reduce((sum, [x]) => sum + (x - meanX) ** 2, 0);
  const slope = points.reduce((sum, [x, y]) => sum + (x - meanX) * (y - meanY), 0) / spread;
  const rest = points.reduce((sum, [x, y]) => sum + (y - meanY - slope * (x - meanX)) ** 2, 0);
  return { slope, error: n > 2 ? Math.sqrt(rest / (n - 2) / spread) : Number.NaN };
}

/** The exponent with which `y` grows with `x`: 0 is constant, 1 is linear. */
export const exponentOf = (points: readonly (readonly [x: number, y: number])[]): number =>
  fit(points.map(([x, y]) => [Math.log(x), Math.log(y)])).slope;
