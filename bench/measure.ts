/** How benches measure: subjects take turns in rounds, and what is told of two of them is the ratio of each round. */

import { setTimeout } from 'node:timers/promises';

export type Subject = () => unknown;

/** Milliseconds of each turn, by round. */
export type Taken = readonly (readonly number[])[];

/** Of one figure over the rounds: its median, and the least and the most without the outermost tenths. */
export interface Spread {
  readonly median: number;
  readonly low: number;
  readonly high: number;
  /** The least of all rounds: of two runs of the same code it differs least. */
  readonly best: number;
}

export interface Turns {
  readonly rounds: number;
  /** Turns of each subject in a round, one after the other. */
  readonly times: number;
  /** Rounds before these that are not counted; else one. V8 compiles what runs often: a daemon's rate stands after 40 000 calls. */
  readonly warmRounds?: number;
  /** Before each turn, uncounted, as an agent makes pauses: what is got ready behind a call is ready then. */
  readonly pauseMs?: number;
}

/**
 * Each round has some turns of each subject, since the machine's mood changes by the second and a floor measured in another
 * one would say nothing. Rejects with what a subject throws.
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
        // Waiting for nothing would cost more than some subjects do.
        if (running instanceof Promise) await running;
        all.push(performance.now() - from);
      }
      if (round >= 0) taken[name].push(all);
    }
  }
  return taken;
}

/** A subject that runs another `times` times, `inFlight` of them under way all the time. */
export const together =
  (run: Subject, { inFlight, times }: { readonly inFlight: number; readonly times: number }) =>
  async (): Promise<void> => {
    let left = times;
    const lane = async () => {
      while (left-- > 0) await run();
    };
    await Promise.all(Array.from({ length: inFlight }, lane));
  };

/** Of unsorted numbers; NaN of none. */
export function quantile(all: readonly number[], share: number): number {
  const sorted = all.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

export const median = (all: readonly number[]): number => quantile(all, 0.5);

/** What one subject takes of another's time, round by round. */
export const ratioOf = (subject: Taken, floor: Taken): Spread =>
  spreadOf(subject.map((round, at) => median(round) / median(floor[at] as readonly number[])));

export const spreadOf = (all: readonly number[]): Spread => ({
  median: median(all),
  low: quantile(all, 0.1),
  high: quantile(all, 0.9),
  best: Math.min(...all),
});

/** Least squares through points: `y` grows by `slope` for each `x`; `error` is the standard error of that slope. */
export function fit(points: readonly (readonly [x: number, y: number])[]): { slope: number; error: number } {
  const n = points.length;
  const mean = (at: 0 | 1) => points.reduce((sum, it) => sum + it[at], 0) / n;
  const [meanX, meanY] = [mean(0), mean(1)];
  const spread = points.reduce((sum, [x]) => sum + (x - meanX) ** 2, 0);
  const slope = points.reduce((sum, [x, y]) => sum + (x - meanX) * (y - meanY), 0) / spread;
  const rest = points.reduce((sum, [x, y]) => sum + (y - meanY - slope * (x - meanX)) ** 2, 0);
  return { slope, error: n > 2 ? Math.sqrt(rest / (n - 2) / spread) : Number.NaN };
}

/** The power with which `y` grows with `x`: 0 is flat, 1 in proportion. */
export const exponentOf = (points: readonly (readonly [x: number, y: number])[]): number =>
  fit(points.map(([x, y]) => [Math.log(x), Math.log(y)])).slope;
