/** Finds tools by words, for sessions that have more tools than a model should be told of at once. */
import type { ListedTool } from '../capability.ts';
import { peopleSay } from './people-say.ts';

export interface ToolQuery {
  readonly query: string;
  readonly category?: string | undefined;
}

export interface FoundTools {
  tools: { name: string; summary: string; why?: string }[];
  /** How many tools match. */
  total: number;
}

export const QUERY_CHARS_MAX = 256;
/** The most tools that a search names. */
export const FOUND_TOOLS_MAX = 20;
/** The first sentence of a description, mostly. */
const SUMMARY_CHARS_MAX = 120;

/** Words that mean the same where tools are looked for. */
const SYNONYMS = [
  'directory folder dir',
  'workspace project codebase repository repo',
  'delete remove erase',
  'find search look locate',
  'uses usage used reference',
  'circular circle cycle cyclic',
  'vulnerability vulnerable',
  'package dependency dep library module',
  'typescript ts',
  'fail broken error fault problem',
  'differ diff compare difference',
  'picture screenshot',
  'page site website web',
  'list show display print view see',
  'valid validate check verify',
];

/** Tools that succeeded after searches, by name: how alike those are to this one, and how often the tool succeeded. */
export type Learned = ReadonlyMap<string, { readonly likeness: number; readonly times: number }>;

/**
 * The tools that match, the best first. A word counts by how few tools have it and how telling the place is in which a tool has it,
 * and each sum by the part of the query that it covers. What was called after such searches comes before its equals.
 */
export function searchTools(
  tools: readonly ListedTool[],
  { query, category }: ToolQuery,
  learned: Learned = new Map(),
): FoundTools {
  const wanted = wordsOf(query);
  const known = tools
    .filter((it) => (category ?? it.category) === it.category)
    .map((tool) => ({ tool, ...placesOf(tool) }));
  const weights = wanted.map((word) => Math.log(1 + known.length / known.filter((it) => it.words.has(word)).length));
  const whole = weights.filter(Number.isFinite).reduce((sum, it) => sum + it, 0);
  const scored = known.map(({ tool, places }) => {
    let [points, covered] = [0, 0];
    for (const [at, word] of wanted.entries()) {
      const found = Math.max(0, ...places.map(([most, words]) => (words.has(word) ? most : 0)));
      if (found === 0) continue;
      points += found * (weights[at] as number);
      covered += weights[at] as number;
    }
    return { tool, points: (points * covered) / (whole || 1), covered };
  });
  const [most, widest] = [Math.max(...scored.map((it) => it.points)), Math.max(...scored.map((it) => it.covered))];
  const found = scored
    .map(({ tool, points, covered }) => {
      const { likeness = 0, times = 0 } = learned.get(tool.name) ?? {};
      return { tool, times, covered, points: points / (most || 1) + 2 * likeness * (1 - 1 / (1 + times)) };
    })
    .filter((it) => it.times > 0 || (it.covered > 0 && it.covered >= widest / 3))
    .toSorted((a, b) => b.points - a.points || (a.tool.name < b.tool.name ? -1 : 1));
  return {
    tools: found.slice(0, FOUND_TOOLS_MAX).map(({ tool: { name, description }, times }) => ({
      name,
      summary: toSummary(description),
      ...(times > 0 && { why: `called here after such searches, with success: ${times}×` }),
    })),
    total: found.length,
  };
}

/** The words of a text that say something, each once: without endings, and of words that mean the same the first. */
export const wordsOf = (text: string): string[] => {
  const split = text.replaceAll(/([a-z])([A-Z])/g, '$1 $2').toLowerCase();
  const words = (split.match(/[\p{L}\p{N}]+/gu) ?? []).filter((it) => !EMPTY.has(it)).map(stem);
  return [...new Set(words.map((it) => SAME.get(it) ?? it))];
};

/** A word without its ending, so that `issue`, `issues` and `rename`, `renaming` are one. */
function stem(word: string): string {
  const bare = word.replace(/(?<=\w{3})(ies|ing|ed|es|s)$/, (it) => (it === 'ies' ? 'y' : ''));
  return bare.replace(/(?<=\w{3})e$/, '').replace(/([bdgmnprt])\1$/, '$1');
}

const EMPTY = new Set(
  'a an and are as at be been by can do does for from get has have how i if in into is it its know like lets me my need not of on one only or our out over should so some than that the their them then there these they this to up use was we what when where which with without would you your'.split(
    ' ',
  ),
);

/** Words by which people mean what the first of each list means. */
const SAME = new Map(
  SYNONYMS.flatMap((line) => {
    const [first = '', ...others] = line.split(' ').map(stem);
    return others.map((it) => [it, first] as const);
  }),
);

/** The words of a tool by the place in which they stand, with how telling it is. */
function placesOf(tool: ListedTool) {
  const places = [
    [2, new Set(wordsOf(tool.name))],
    [2, new Set(wordsOf(tool.title))],
    [1.5, new Set(tool.capabilities.flatMap((it) => wordsOf(`${it.action} ${it.description}`)))],
    [1.5, new Set(wordsOf(peopleSay[tool.name] ?? ''))],
    [1, new Set(wordsOf(`${tool.description} ${tool.category}`))],
  ] as const;
  return { places, words: new Set(places.flatMap(([, words]) => [...words])) };
}

function toSummary(description: string): string {
  const line = description.replaceAll(/\s+/g, ' ').trim();
  const [sentence = line] = /^.*?\.(?= |$)/.exec(line) ?? [];
  return sentence.length <= SUMMARY_CHARS_MAX ? sentence : `${sentence.slice(0, SUMMARY_CHARS_MAX - 1)}…`;
}
