/** Writes docs/benchmarks.md and its pictures from results and from written notes (notes.md). */
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import type { Figure, Goal } from './bench.ts';
import type { Spread } from './measure.ts';
import { type BenchResult, here, type Results } from './results.ts';
import { short, toSvg } from './svg.ts';

/** Formats a figure with its unit; small times in microseconds. */
export function shown({ value, unit }: Pick<Figure, 'value' | 'unit'>): string {
  if (unit === 'ms' && Math.abs(value) < 0.1) return `${short(value * 1000)} µs`;
  return unit === '/s' ? `${short(value)}/s` : `${short(value)} ${unit}`.trim();
}

export const shownRatio = ({ median, low, high }: Spread): string =>
  `${short(median)} (${short(low)} – ${short(high)})`;

export function isReached({ value, over, goal }: Figure): boolean {
  const { ratio = Infinity, most = Infinity, least = -Infinity } = goal ?? {};
  return (over?.ratio.median ?? 0) <= ratio && value <= most && value >= least;
}

function shownGoal({ ratio, most, least }: Goal, unit: Figure['unit']): string {
  if (ratio !== undefined) return `≤ ${ratio} ×`;
  return most !== undefined ? `≤ ${shown({ value: most, unit })}` : `≥ ${shown({ value: least ?? 0, unit })}`;
}

const goalOf = (it: Figure) =>
  it.goal ? `${shownGoal(it.goal, it.unit)}: ${isReached(it) ? 'reached' : '**not reached**'}` : '';

const ALWAYS = new Set(['what', 'median']);

function table(figures: readonly Figure[]): string {
  const columns: [string, (it: Figure) => string][] = [
    ['what', (it) => it.name],
    ['first', ({ first, unit }) => (first === undefined ? '' : shown({ value: first, unit }))],
    ['median', shown],
    ['p95', ({ p95, unit }) => (p95 === undefined ? '' : shown({ value: p95, unit }))],
    ['p99', ({ p99, unit }) => (p99 === undefined ? '' : shown({ value: p99, unit }))],
    ['× its floor (spread)', ({ over }) => (over ? shownRatio(over.ratio) : '')],
    ['allocated', ({ allocatedKiB }) => (allocatedKiB === undefined ? '' : `${short(allocatedKiB)} KiB`)],
    ['floor', ({ over }) => over?.floor ?? ''],
    ['to reach', goalOf],
  ];
  const used = columns.filter(([name, of]) => ALWAYS.has(name) || figures.some((it) => of(it) !== ''));
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
  const rows = figures.map((it) => line(used.map(([, of]) => of(it).replaceAll('|', '\\|'))));
  return [line(used.map(([name]) => name)), `|${'---|'.repeat(used.length)}`, ...rows].join('\n');
}

function section(result: BenchResult): string {
  const { title, question, figures, pictures, says, skipped, load } = result;
  return [
    `## ${title}`,
    question,
    ...pictures.map((it) => `![${it.title}](benchmarks/${it.name}.svg)`),
    ...(figures.length > 0 ? [table(figures)] : []),
    ...says,
    ...(load === undefined ? [] : [`Measured while the machine had a load of ${short(load)}.`]),
    ...skipped.map(({ name, reason }) => `Not measured: ${name}, since ${reason}.`),
  ].join('\n\n');
}

/** The table of all goals; missed ones come first. */
function goals({ benches }: Results): string {
  const all = Object.values(benches).flatMap(({ title, figures }) =>
    figures.filter((it) => it.goal).map((it) => ({ ...it, name: `${title}: ${it.name}` })),
  );
  return table(all.toSorted((a, b) => Number(isReached(a)) - Number(isReached(b))));
}

export function toMarkdown(results: Results, notes: string): string {
  const all = Object.values(results.benches);
  const days = [...new Set(all.map((it) => it.at.slice(0, 10)))].sort().join(', ');
  const on = Object.values(results.machine).join(', ');
  const about =
    'ratios are of subjects that took turns in one run, with the spread over its rounds; milliseconds are this machine’s.';
  const { paced, ...others } = results.benches;
  const parts = [
    '<!-- Written by `npm run bench -- --report` of bench/published.json and bench/notes.md. -->',
    '# Benchmarks',
    `Measured ${days} on ${on}. \`npm run bench\` measures anew, \`script/bench\` in a fresh clone; [bench/README.md](../bench/README.md) says how, and how to read it: ${about}`,
    ...(paced ? [section(paced)] : []),
    '## What is to be reached',
    goals(results),
    ...Object.values(others).map(section),
    notes.trim(),
  ];
  return `${parts.join('\n\n')}\n`;
}

/** Writes the page, its pictures, and the results behind them. */
export function publish(results: Results): void {
  const docs = (path: string) => here(`../docs/${path}`);
  rmSync(docs('benchmarks'), { recursive: true, force: true });
  mkdirSync(docs('benchmarks'), { recursive: true });
  for (const { pictures } of Object.values(results.benches))
    for (const it of pictures) writeFileSync(docs(`benchmarks/${it.name}.svg`), toSvg(it));
  writeFileSync(docs('benchmarks.md'), toMarkdown(results, readFileSync(here('notes.md'), 'utf8')));
  writeFileSync(here('published.json'), `${JSON.stringify(results, null, 1)}\n`);
}
