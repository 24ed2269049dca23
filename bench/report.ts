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

const goalOf = (it: Figure) => (it.goal ? `${isReached(it) ? '' : `${MISSED} `}${shownGoal(it.goal, it.unit)}` : '');
const MISSED = '**missed**';

const prefixOf = (name: string) => name.slice(0, name.lastIndexOf(': ') + 1);

/** A name after another: `″` stands for what it has before its last colon, where the other has the same. */
function nameAfter(before: string, name: string): string {
  const prefix = prefixOf(name);
  return prefix !== '' && prefixOf(before) === prefix ? `″${name.slice(prefix.length)}` : name;
}

/** A row without the empty cells at its end. */
const line = (cells: readonly string[]) =>
  `| ${cells
    .slice(0, cells.findLastIndex((it) => it !== '') + 1)
    .map((it) => it.replaceAll('|', '\\|'))
    .join(' | ')} |`;

/** At most so many figures are all shown; of more only those with a floor, a goal or a peer. */
const ALL_SHOWN_MAX = 5;

/** The figures that get a row, by their prefixes. Bars of a picture get one for their goal only, and floors none. */
function rowsOf({ figures, pictures }: BenchResult): Figure[] {
  const drawn = new Set(pictures.flatMap((it) => (it.kind === 'curves' ? [] : it.bars.map(({ name }) => name))));
  const floors = new Set(figures.map(({ over }) => over?.floor));
  const besidePeers = new Set(figures.filter(({ name }) => name.search(PEER) >= 0).map(({ name }) => prefixOf(name)));
  const rows = figures.filter(({ name, over, goal }) => {
    if (goal) return true;
    if (drawn.has(name) || floors.has(name)) return false;
    return over || figures.length <= ALL_SHOWN_MAX || (prefixOf(name) !== '' && besidePeers.has(prefixOf(name)));
  });
  return [...Map.groupBy(rows, ({ name }) => prefixOf(name)).values()].flat();
}

/** Figures in rows. A floor is named with its value where it differs from the row before; one of all in the head. */
function table(rows: readonly Figure[], figures: readonly Figure[]): string {
  const floors = new Set(rows.flatMap(({ over }) => over?.floor ?? []));
  const [only] = floors.size === 1 ? floors : [];
  const shownFloor = (name: string, beside = '') => {
    const floor = figures.find((it) => it.name === name);
    return `${nameAfter(beside, name).replace('″ ', '')}${floor ? ` (${shown(floor)})` : ''}`;
  };
  const columns: [string, (it: Figure, before?: Figure) => string][] = [
    ['what', ({ name }, before) => nameAfter(before?.name ?? '', name)],
    ['median', shown],
    [
      `× ${only === undefined ? 'its floor' : shownFloor(only)}`,
      ({ name, over }, before) => {
        if (!over) return '';
        const ratio = short(over.ratio.median);
        const isSaid = only !== undefined || over.floor === before?.over?.floor;
        return isSaid ? ratio : `${ratio} of ${shownFloor(over.floor, name)}`;
      },
    ],
    ['goal', goalOf],
  ];
  const used = columns.filter(([, of]) => rows.some((it) => of(it) !== ''));
  const lines = rows.map((it, at) => line(used.map(([, of]) => of(it, rows[at - 1]))));
  return [line(used.map(([name]) => name)), `|${'---|'.repeat(used.length)}`, ...lines].join('\n');
}

/** More sentences than these are details of each subject, which the results keep. */
const SAYS_MAX = 2;

function section(result: BenchResult): string {
  const { title, question, figures, pictures, says, skipped } = result;
  const rows = rowsOf(result);
  return [
    `## ${title}`,
    question,
    ...pictures.map((it) => `![${it.title}](benchmarks/${it.name}.svg)`),
    ...(rows.length > 0 ? [table(rows, figures)] : []),
    ...(says.length > SAYS_MAX ? [] : says),
    ...skipped.map(({ name, reason }) => `Not measured: ${name}, since ${reason}.`),
  ].join('\n\n');
}

/** The sections of a page by their titles. */
function sectionsOf(page: string): Map<string, string> {
  const [, ...sections] = page.split(/^## /m);
  return new Map(sections.map((it) => [it.split('\n')[0] as string, `## ${it.trim()}`]));
}

/** The page with new results in it. What they do not measure stays as `page` has it. */
export function toMarkdown(results: Results, page: string, notes: string): string {
  const all = Object.values(results.benches);
  const days = all
    .map((it) => it.at.slice(0, 10))
    .sort()
    .at(-1);
  const on = Object.values(results.machine).join(', ');
  const sections = sectionsOf(page);
  for (const it of sectionsOf(notes).keys()) sections.delete(it);
  for (const it of all) sections.set(it.title, section(it));
  const body = [...sections.values(), notes.trim()].join('\n\n');
  const parts = [
    '<!-- Written by `npm run bench -- --report` of its results and bench/notes.md. -->',
    '# Benchmarks',
    `Last measured ${days} on ${on}. Compare the ratios (×, lower is better): a subject and its floor, the least that it could cost, took turns in one run. Without a floor, a ratio is of the floor above; ″ repeats the name above. Milliseconds are this machine’s. ${body.split(MISSED).length - 1} goals are ${MISSED}.`,
    'Shown is what has a floor, a peer or a goal. `npm run bench` measures anew and writes all figures, with spread, p99, memory and the machine’s load, to `bench/results/`; [bench/README.md](../bench/README.md) explains them; `bench/peers/package.json` has the peers’ versions.',
    body,
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
