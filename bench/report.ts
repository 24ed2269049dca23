/** Writes docs/benchmarks.md and its pictures from results and from written notes (notes.md). */
import { readFileSync, writeFileSync } from 'node:fs';
import type { Figure, Goal } from './bench.ts';
import type { Spread } from './measure.ts';
import { type BenchResult, here, type Results } from './results.ts';
import { short, toSvg } from './svg.ts';

/** Formats a figure with its unit; small times in microseconds. */
export function shown({ value, unit }: Pick<Figure, 'value' | 'unit'>): string {
  if (unit === 'ms' && Math.abs(value) < 0.1) return `${short(value * 1000)} µs`;
  return unit === '/s' ? `${short(value)}/s` : `${short(value)} ${unit}`.trim();
}

export const shownRatio = ({ median, low, high }: Spread): string => `${short(median)} (${short(low)}–${short(high)})`;

export function isReached({ value, over, goal }: Figure): boolean {
  const { ratio = Infinity, most = Infinity, least = -Infinity } = goal ?? {};
  return (over?.ratio.median ?? 0) <= ratio && value <= most && value >= least;
}

function shownGoal({ ratio, most, least }: Goal, unit: Figure['unit']): string {
  if (ratio !== undefined) return `≤ ${ratio} ×`;
  return most !== undefined ? `≤ ${shown({ value: most, unit })}` : `≥ ${shown({ value: least ?? 0, unit })}`;
}

/** `@scope/name 1.2.3` of a peer: tables have its name alone, since peers/package.json has the rest. */
const PEER = /(?:@[\w-]+\/)?([a-z]+(?:-[a-z]+)+) \d+\.\d+\.\d+/g;
const withShortNames = (text: string): string => text.replaceAll(PEER, '$1');

const goalOf = (it: Figure) =>
  it.goal ? `${shownGoal(it.goal, it.unit)}${isReached(it) ? '' : ': **not reached**'}` : '';

const ALWAYS = new Set(['what', 'median']);

/** The floor of each figure: `″` where it is that of the row before. */
function floorsOf(figures: readonly Figure[]): ReadonlyMap<Figure, string> {
  let last = '';
  return new Map(
    figures.map((it) => {
      const { floor = '' } = it.over ?? {};
      const shownFloor = floor !== '' && floor === last ? '″' : floor;
      last = floor;
      return [it, shownFloor];
    }),
  );
}

/** The name of each figure: `″` stands for what it has before its last colon, where the row before has the same. */
function namesOf(figures: readonly Figure[]): ReadonlyMap<Figure, string> {
  const prefixOf = ({ name }: Figure) => name.slice(0, name.lastIndexOf(': ') + 1);
  return new Map(
    figures.map((it, at) => {
      const [before] = figures.slice(at - 1, at);
      const prefix = prefixOf(it);
      return [
        it,
        before && prefix !== '' && prefixOf(before) === prefix ? `″${it.name.slice(prefix.length)}` : it.name,
      ];
    }),
  );
}

const line = (cells: readonly string[]) => `| ${cells.map((it) => it.replaceAll('|', '\\|')).join(' | ')} |`;

/** Figures in rows. One floor of all stands in the head of the column of ratios. */
function table(figures: readonly Figure[]): string {
  const floors = new Set(figures.flatMap(({ over }) => over?.floor ?? []));
  const [only] = floors.size === 1 ? floors : [];
  const shownFloors = floorsOf(figures);
  const names = namesOf(figures);
  const columns: [string, (it: Figure) => string][] = [
    ['what', (it) => names.get(it) ?? ''],
    ['first', ({ first, unit }) => (first === undefined ? '' : shown({ value: first, unit }))],
    ['median', shown],
    ['p95', ({ p95, unit }) => (p95 === undefined ? '' : shown({ value: p95, unit }))],
    ['p99', ({ p99, unit }) => (p99 === undefined ? '' : shown({ value: p99, unit }))],
    [`× ${only ?? 'its floor'} (spread)`, ({ over }) => (over ? shownRatio(over.ratio) : '')],
    ['allocated', ({ allocatedKiB }) => (allocatedKiB === undefined ? '' : `${short(allocatedKiB)} KiB`)],
    ['floor', (it) => (only === undefined ? (shownFloors.get(it) ?? '') : '')],
    ['to reach', goalOf],
  ];
  const used = columns.filter(([name, of]) => ALWAYS.has(name) || figures.some((it) => of(it) !== ''));
  const rows = figures.map((it) => line(used.map(([, of]) => of(it))));
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
    ...(load === undefined ? [] : [`Load: ${short(load)}.`]),
    ...skipped.map(({ name, reason }) => `Not measured: ${name}, since ${reason}.`),
  ].join('\n\n');
}

/** The goals that are missed, whose floors stand with their figures below. Rows of other benches stay as `page` has them. */
function missedGoals({ benches }: Results, page: string): string {
  const rows = Object.values(benches).flatMap(({ title, figures }) =>
    figures
      .filter((it) => !isReached(it))
      .map((it) => {
        const ratio = it.over && it.goal?.ratio !== undefined ? `${short(it.over.ratio.median)} ×` : shown(it);
        return line([`${title}: ${it.name}`, ratio, it.goal ? shownGoal(it.goal, it.unit) : '']);
      }),
  );
  const titles = Object.values(benches).map((it) => `| ${it.title}: `);
  const [, , ...before] = (sectionsOf(page).get(GOALS) ?? '').split('\n').filter((it) => it.startsWith('|'));
  const others = before.filter((row) => !titles.some((it) => row.startsWith(it)));
  return [line(['what', 'is', 'to reach']), '|---|---|---|', ...rows, ...others].join('\n');
}

/** The sections of a page by their titles. */
function sectionsOf(page: string): Map<string, string> {
  const [, ...sections] = page.split(/^## /m);
  return new Map(sections.map((it) => [it.split('\n')[0] as string, `## ${it.trim()}`]));
}

const GOALS = 'What is to be reached';

/** The page with new results in it. What they do not measure stays as `page` has it. */
export function toMarkdown(results: Results, page: string, notes: string): string {
  const { paced, ...others } = results.benches;
  const all = Object.values(results.benches);
  const days = all
    .map((it) => it.at.slice(0, 10))
    .sort()
    .at(-1);
  const on = Object.values(results.machine).join(', ');
  const about =
    'ratios are of subjects that took turns in one run, with the spread over its rounds; milliseconds are this machine’s; *load* is its load average at the start, ″ what the row above has there; versions of peers are in [their package.json](../bench/peers/package.json).';
  const sections = sectionsOf(page);
  for (const it of sectionsOf(notes).keys()) sections.delete(it);
  sections.set(
    GOALS,
    `## ${GOALS}\n\nOnly what is missed; the tables below have what is reached, and all floors.\n\n${missedGoals(results, page)}`,
  );
  for (const it of [...(paced ? [paced] : []), ...Object.values(others)]) sections.set(it.title, section(it));
  const parts = [
    '<!-- Written by `npm run bench -- --report` of its results and bench/notes.md. -->',
    '# Benchmarks',
    `Last measured ${days} on ${on}. \`npm run bench\` measures anew, \`script/bench\` in a fresh clone; [bench/README.md](../bench/README.md) says how, and how to read it: ${about}`,
    ...sections.values(),
    notes.trim(),
  ];
  return withShortNames(`${parts.join('\n\n')}\n`);
}

/** Writes the page and its pictures. */
export function publish(results: Results): void {
  const docs = (path: string) => here(`../docs/${path}`);
  for (const { pictures } of Object.values(results.benches))
    for (const it of pictures) writeFileSync(docs(`benchmarks/${it.name}.svg`), toSvg(it));
  const page = readFileSync(docs('benchmarks.md'), 'utf8');
  writeFileSync(docs('benchmarks.md'), toMarkdown(results, page, readFileSync(here('notes.md'), 'utf8')));
}
