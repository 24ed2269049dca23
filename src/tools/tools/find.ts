/** Finds tools by words, for sessions that have more tools than a model should be told of at once. */
import type { ListedTool } from '../capability.ts';
export interface ToolQuery {
  readonly query: string;
  readonly category?: string | undefined;
}

export interface FoundTools {
  tools: { name: string; summary: string }[];
  /** How many tools match. */
  total: number;
}

export const QUERY_CHARS_MAX = 256;
/** The most tools that a search names. */
export const FOUND_TOOLS_MAX = 20;
/** The first sentence of a description, mostly. */
const SUMMARY_CHARS_MAX = 120;

/**
 * The tools that match at least half as many words of the query as the best one, the best first: those that match more
 * words, then those that match them in more telling places, then by name.
 */
export function searchTools(tools: readonly ListedTool[], { query, category }: ToolQuery): FoundTools {
  const wanted = [...new Set(wordsOf(query))];
  const matching = tools
    .filter((it) => (category ?? it.category) === it.category)
    .map((tool) => ({ tool, ...scoreOf(tool, wanted) }))
    .filter((it) => it.words > 0)
    .toSorted((a, b) => b.words - a.words || b.points - a.points || (a.tool.name < b.tool.name ? -1 : 1));
  const wordsMin = (matching[0]?.words ?? 0) / 2;
  const found = matching.filter((it) => it.words >= wordsMin);
  return {
    tools: found
      .slice(0, FOUND_TOOLS_MAX)
      .map(({ tool: { name, description } }) => ({ name, summary: toSummary(description) })),
    total: found.length,
  };
}

const wordsOf = (text: string): string[] => text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];

/** How many of the words a tool has, and how telling the places are in which it has them. */
function scoreOf(tool: ListedTool, wanted: readonly string[]): { words: number; points: number } {
  const places = [
    [4, wordsOf(tool.name)],
    [3, wordsOf(tool.title)],
    [2, tool.capabilities.flatMap((it) => wordsOf(`${it.action} ${it.description}`))],
    [1, wordsOf(`${tool.description} ${tool.category}`)],
  ] as const;
  const points = wanted.map((word) => Math.max(0, ...places.map(([most, words]) => most * likeness(word, words))));
  return { words: points.filter((it) => it > 0).length, points: points.reduce((sum, it) => sum + it, 0) };
}

/** 1 if the word is there, less if one begins with it or is how it begins, such as `issue` and `issues`. */
function likeness(word: string, words: readonly string[]): number {
  if (words.includes(word)) return 1;
  const isAlike = (it: string) => it.startsWith(word) || (it.length >= STEM_CHARS_MIN && word.startsWith(it));
  return word.length >= STEM_CHARS_MIN && words.some(isAlike) ? 0.5 : 0;
}

const STEM_CHARS_MIN = 3;

function toSummary(description: string): string {
  const line = description.replaceAll(/\s+/g, ' ').trim();
  const [sentence = line] = /^.*?\.(?= |$)/.exec(line) ?? [];
  return sentence.length <= SUMMARY_CHARS_MAX ? sentence : `${sentence.slice(0, SUMMARY_CHARS_MAX - 1)}…`;
}
