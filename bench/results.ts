/** Reads and writes the suite's findings: results of a run, and the baseline of ratios for later runs. */
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { cpus, release } from 'node:os';
import { fileURLToPath } from 'node:url';
import type { Findings } from './bench.ts';
import type { Spread } from './measure.ts';

export type Form = 'small' | 'full';

export interface BenchResult extends Findings {
  readonly title: string;
  readonly question: string;
  readonly at: string;
  readonly seconds: number;
  /** Load of the machine at the start, averaged over a minute. */
  readonly load?: number;
  /** Why the run ended early. */
  readonly failed?: string;
}

export interface Results {
  readonly form: Form;
  readonly machine: Readonly<Record<string, string>>;
  readonly benches: Readonly<Record<string, BenchResult>>;
}

export const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));

export const machine = (): Results['machine'] => ({
  node: process.version,
  cpu: `${cpus().length} × ${cpus()[0]?.model}`,
  kernel: `${process.platform} ${release()}`,
  user: process.getuid?.() === 0 ? 'root' : 'not root',
});

export const readJson = <T>(path: string): T => JSON.parse(readFileSync(path, 'utf8')) as T;

/** Writes results to a new file in results/, or to `path`. */
export function writeResults(results: Results, path?: string): string {
  const to = path ?? here(`results/${new Date().toISOString().replaceAll(':', '-')}.json`);
  mkdirSync(here('results'), { recursive: true });
  writeFileSync(to, `${JSON.stringify(results, null, 1)}\n`);
  return to;
}

/** The latest complete result of each bench in its full form, from results/. */
export function latestResults(): Results {
  const files = existsSync(here('results'))
    ? readdirSync(here('results'))
        .filter((it) => it.endsWith('.json'))
        .sort()
    : [];
  const all = files.map((it) => readJson<Results>(here(`results/${it}`))).filter((it) => it.form === 'full');
  const newest = new Map<string, BenchResult>();
  for (const [name, it] of all.flatMap(({ benches }) => Object.entries(benches)))
    if (!it.failed && it.at >= (newest.get(name)?.at ?? '')) newest.set(name, it);
  return { form: 'full', machine: all.at(-1)?.machine ?? machine(), benches: Object.fromEntries(newest) };
}

/** Spreads by form, then by `bench: figure`. */
export type Baseline = Record<Form, Record<string, Spread>>;

const BASELINE = here('baseline.json');

export const readBaseline = (): Baseline =>
  existsSync(BASELINE) ? readJson<Baseline>(BASELINE) : { small: {}, full: {} };

/** The ratios of a run with their keys `bench: figure`. */
export const ratiosOf = ({ benches }: Results): [string, Spread][] =>
  Object.entries(benches).flatMap(([bench, { figures }]) =>
    figures.flatMap(({ name, over }): [string, Spread][] => (over ? [[`${bench}: ${name}`, over.ratio]] : [])),
  );

/** Widens the baseline by a run: differences between runs on one machine are its noise. */
export function widenBaseline(results: Results): void {
  const baseline = readBaseline();
  const known = baseline[results.form];
  for (const [name, it] of ratiosOf(results)) {
    const before = known[name];
    const wide = before && {
      median: (before.median + it.median) / 2,
      low: Math.min(before.low, it.low),
      high: Math.max(before.high, it.high),
      best: Math.min(before.best, it.best),
    };
    known[name] = rounded(wide ?? it);
  }
  writeFileSync(BASELINE, `${JSON.stringify(baseline, null, 1)}\n`);
}

const rounded = (spread: Spread): Spread =>
  Object.fromEntries(Object.entries(spread).map(([key, it]) => [key, Number(it.toPrecision(3))])) as unknown as Spread;

export interface Moved {
  readonly name: string;
  readonly before: Spread;
  readonly now: Spread;
  /** The bench of the figure. */
  readonly bench: string;
  /** Whether even the best round took more than twice the baseline's highest ratio. */
  readonly isWorse: boolean;
}

/** Ratios whose spread does not overlap the baseline's. */
export function movedSince(results: Results, baseline: Baseline): Moved[] {
  return ratiosOf(results).flatMap(([name, now]) => {
    const before = baseline[results.form][name];
    if (!before || (now.low <= before.high && now.high >= before.low)) return [];
    return [{ name, before, now, bench: name.split(':')[0] as string, isWorse: now.best > 2 * before.high }];
  });
}
