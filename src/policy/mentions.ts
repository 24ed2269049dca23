/** Which words of a command could be paths that its program reads or writes. Pure; too many is right, too few is not. */
import type { Field } from './words.ts';

/** Longest path of the kernel; of longer words only so much is looked at. */
const PATH_CHARS_MAX = 4096;
/** Places in one word where a path may begin. */
const STARTS_MAX = 16;
/** Letters before a path in one word of short options: `-xf.env`. */
const CLUSTER_MAX = 4;

const ADDRESS = /^[a-z][a-z0-9+.-]*:\/\//;

/** Arguments of `name` that may name something: not what echo prints, nor the message of a commit. `fields[0]` is the program. */
export function withoutMessages(name: string, fields: readonly Field[]): readonly Field[] {
  if (name === 'echo' || name === 'printf') return [];
  const args = fields.slice(1);
  if (name !== 'git' || !/^(commit|tag|stash|notes|merge)$/.test(subcommand(args))) return args;
  return args.filter(
    ({ text }, at) =>
      !/^(-[aqsvne]*m|--message)$/.test(args[at - 1]?.text ?? '') && !/^(-[aqsvne]*m|--message=)/.test(text ?? ''),
  );
}

function subcommand(args: readonly Field[]): string {
  for (let at = 0; at < args.length; at++) {
    const text = args[at]?.text ?? '';
    if (text === '-c' || text === '-C') at += 1;
    else if (!text.startsWith('-')) return text;
  }
  return '';
}

/** The paths that a static word could hold: itself, and what follows `=`, `:`, `@`, `,`, `<`, `)` or the letters of an option. */
export function toCandidates(word: string): string[] {
  const text = word.slice(0, PATH_CHARS_MAX);
  if (text === '' || (ADDRESS.test(text) && !text.startsWith('file:') && !text.includes('/..'))) return [];
  const found = [text];
  // Of several lines: a text, not a name with parts.
  const marks = text.includes('\n') ? [] : [...text.matchAll(/[=:@,<)]/g)].slice(0, STARTS_MAX).map((it) => it.index);
  marks.forEach((at, nth) => {
    if (nth === 0) found.push(text.slice(0, at));
    found.push(text.slice(at + 1), text.slice(at + 1, marks[nth + 1]));
  });
  const cluster = /^-[A-Za-z0-9]+/.exec(text)?.[0].length ?? 0;
  for (let at = 2; at <= Math.min(cluster, CLUSTER_MAX + 1); at++) found.push(text.slice(at));
  return [...new Set(found)].filter((it) => it !== '');
}
