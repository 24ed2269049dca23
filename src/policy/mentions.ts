/** Which words of a command could be paths that its program reads or writes. Pure; too many is right, too few is not. */
import { defaultLimits as limits } from '../limits.ts';
import type { Field } from './words.ts';
import { isWrapper } from './wrappers.ts';

/** Longest path of the kernel; of longer words only so much is looked at. */
const PATH_CHARS_MAX = 4096;
/** Letters before a path in one word of short options: `-xf.env`. */
const CLUSTER_MAX = 4;

const ADDRESS = /^[a-z][a-z0-9+.-]*:\/\//;

/** Arguments of `name` that may name something: not what echo prints, nor the message of a commit. `fields[0]` is the program. */
export function withoutMessages(name: string, fields: readonly Field[]): readonly Field[] {
  if (name === 'echo' || name === 'printf') return [];
  const args = fields.slice(1);
  if (SEARCHES.has(name)) return withoutPattern(args);
  if (name !== 'git') return isWrapper(name) ? withoutCommitNames(args) : args;
  if (subcommand(args) === 'mv') return args;
  const named = withoutCommits(args);
  if (!/^(commit|tag|stash|notes|merge)$/.test(subcommand(args))) return named;
  return named.filter(
    ({ text }, at) =>
      !/^(-[aqsvne]*m|--message)$/.test(named[at - 1]?.text ?? '') && !/^(-[aqsvne]*m|--message=)/.test(text ?? ''),
  );
}

/** Letters of `cp` and `mkdir` that take no value and make no link. */
const MAKES: Readonly<Record<string, RegExp>> = { cp: /^-[afinpruvRT]+$/, mkdir: /^-[pv]+$/ };

/**
 * Those of a program's arguments that it only makes or overwrites: what `mkdir` makes, the second of two operands of `cp`. None
 * where a word is not known, or an option may make them something else.
 */
export function destinationsOf(name: string, fields: readonly Field[]): readonly Field[] {
  const options = MAKES[name];
  const args = fields.slice(1);
  const operands = args.filter(({ text }) => !text?.startsWith('-'));
  const isPlain = ({ text }: Field) => text !== undefined && (!text.startsWith('-') || options?.test(text));
  if (!options || !args.every(isPlain)) return [];
  if (name === 'mkdir') return operands;
  return operands.length === 2 ? operands.slice(1) : [];
}

/** Programs whose first word that is no option is a pattern, unless an option gives it. */
const SEARCHES: ReadonlySet<string> = new Set(['grep', 'egrep', 'fgrep', 'zgrep']);

/**
 * Without the pattern of a search, which may be the very word that secrets have in their names. Only where every word is
 * known, and no option gives a pattern (`-e`, `-f`) or takes the next word: then the first word that is no option names no file.
 */
function withoutPattern(args: readonly Field[]): readonly Field[] {
  const texts = args.map((it) => it.text);
  const isPlain = (it: string | undefined): it is string =>
    it !== undefined && (!it.startsWith('-') || PLAIN_OPTION.test(it));
  if (!texts.every(isPlain)) return args;
  const pattern = texts.findIndex((it) => !it.startsWith('-'));
  return args.filter((_, at) => at !== pattern);
}

/** Letters of grep that take no value, and long ones that are written out: the rest may hide a file behind what looks like a pattern. */
const PLAIN_OPTION =
  /^(-[EFGPiIvwxcLlqsbHhnTZzaoRrU]+|--(recursive|ignore-case|line-number|fixed-strings|extended-regexp|perl-regexp|word-regexp|count|files-with-matches|files-without-match|invert-match|only-matching|no-messages|text|color|(color|include|exclude|exclude-dir)=.*))$/;

/** The arguments of a program that runs another one: `timeout 60 git diff HEAD`. */
function withoutCommitNames(args: readonly Field[]): readonly Field[] {
  const at = args.findIndex(({ text }) => text === 'git' || text?.endsWith('/git'));
  if (at < 0 || subcommand(args.slice(at + 1)) === 'mv') return args;
  return [...args.slice(0, at + 1), ...withoutCommits(args.slice(at + 1))];
}

/** A commit by the name `HEAD`, as git takes one: `HEAD`, `origin/HEAD`, `HEAD@{1}`, and a path or another ref behind a colon. */
const COMMIT_NAME = /^[+^]?(?:refs\/[\w./-]+\/|[\w.-]+\/)?HEAD(?:@\{[^}]*\})?(?:$|:)/;

/** Options of git whose next word is a file that it writes: `git log --output HEAD` writes one of that name. */
const TAKES_FILE = /^(?:-o|--outp[a-z-]*)$/;

/** The arguments of git without the commits that they name. */
const withoutCommits = (args: readonly Field[]): readonly Field[] =>
  args.flatMap((it, at) => (TAKES_FILE.test(args[at - 1]?.text ?? '') ? [it] : pathsBesideCommit(it)));

/**
 * What of one of git's words may be a path. The word `HEAD` is a file of that name to `git mv`, which is told where to, and behind
 * an option that takes a file; other commands of git name the last commit by it, and a rule about files called HEAD is not meant for them.
 */
function pathsBesideCommit(field: Field): readonly Field[] {
  const [name] = COMMIT_NAME.exec(field.text ?? '') ?? [];
  if (name === undefined) return [field];
  const rest = (field.text as string).slice(name.length);
  return rest === '' ? [] : [{ text: rest }];
}

function subcommand(args: readonly Field[]): string {
  for (let at = 0; at < args.length; at++) {
    const text = args[at]?.text ?? '';
    if (text === '-c' || text === '-C') at += 1;
    else if (!text.startsWith('-')) return text;
  }
  return '';
}

/** What one word may hold. */
export interface Candidates {
  readonly paths: readonly string[];
  /** False where it may hold more than are looked at. */
  readonly areAll: boolean;
}

/** The paths that a static word could hold: itself, and what follows `=`, `:`, `@`, `,`, `<`, `)` or the letters of an option. */
export function toCandidates(word: string): Candidates {
  const text = word.slice(0, PATH_CHARS_MAX);
  if (text === '' || (ADDRESS.test(text) && !text.startsWith('file:') && !text.includes('/..')))
    return { paths: [], areAll: true };
  const found = [text];
  // Of several lines: a text, not a name with parts.
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
