/** Finds the words of a command that could be paths which its program reads or writes. Pure. Too many are fine, too few are not. */
import { defaultLimits as limits } from '../../base/limits.ts';
import type { ShellArgument } from './words.ts';

/** The kernel's longest path; longer words are cut to it. */
const PATH_CHARS_MAX = 4096;
/** Letters before a path in one word of short options: `-xf.env`. */
const CLUSTER_MAX = 4;

const ADDRESS = /^[a-z][a-z0-9+.-]*:\/\//;

/** Arguments of `name` that may name a file: without what echo prints. `fields[0]` is the program. */
export const withoutMessages = (name: string, fields: readonly ShellArgument[]): readonly ShellArgument[] =>
  name === 'echo' || name === 'printf' ? [] : fields.slice(1);

/** Paths that one word may hold. */
export interface Candidates {
  readonly paths: readonly string[];
  /** False if the word may hold more paths than are listed. */
  readonly areAll: boolean;
}

/** The paths that a static word could hold: the word itself, and what follows `=`, `:`, `@`, `,`, `<`, `)` or the letters of an option. */
export function toCandidates(word: string): Candidates {
  const text = word.slice(0, PATH_CHARS_MAX);
  if (text === '' || (ADDRESS.test(text) && !text.startsWith('file:') && !text.includes('/..')))
    return { paths: [], areAll: true };
  const found = [text];
  // A word of several lines is a text, not a name with parts.
  const all = text.includes('\n') ? [] : [...text.matchAll(/[=:@,<)]/g)].map((it) => it.index);
  const marks = all.slice(0, limits.commandWordPathsMax / 2);
  marks.forEach((at, nth) => {
    if (nth === 0) found.push(text.slice(0, at));
    found.push(text.slice(at + 1), text.slice(at + 1, all[nth + 1]));
  });
  const cluster = /^-[A-Za-z0-9]+/.exec(text)?.[0].length ?? 0;
  for (let at = 2; at <= Math.min(cluster, CLUSTER_MAX + 1); at++) found.push(text.slice(at));
  return { paths: [...new Set(found)].filter((it) => it !== ''), areAll: marks.length === all.length };
}
