/** Finds the words of a command that could be paths which its program reads or writes. Pure. Too many are fine, too few are not. */
import { defaultLimits as limits } from '../../limits.ts';
import type { ShellArgument } from './words.ts';
import { isWrapper } from './wrappers.ts';

/** The kernel's longest path; longer words are cut to it. */
const PATH_CHARS_MAX = 4096;
/** Letters before a path in one word of short options: `-xf.env`. */
const CLUSTER_MAX = 4;

const ADDRESS = /^[a-z][a-z0-9+.-]*:\/\//;

/** Arguments of `name` that may name a file: without what echo prints or the message of a commit. `fields[0]` is the program. */
export function withoutMessages(name: string, fields: readonly ShellArgument[]): readonly ShellArgument[] {
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

/** Options of `cp` and `mkdir` that take no value and make no link. */
const MAKES: Readonly<Record<string, RegExp>> = { cp: /^-[afinpruvRT]+$/, mkdir: /^-[pv]+$/ };

/**
 * The arguments that a program only makes or overwrites: all operands of `mkdir`, the second of two operands of `cp`. Empty if a word is
 * unknown or an option may change what the operands mean.
 */
export function destinationsOf(name: string, fields: readonly ShellArgument[]): readonly ShellArgument[] {
  const options = MAKES[name];
  const args = fields.slice(1);
  const operands = args.filter(({ text }) => !text?.startsWith('-'));
  const isPlain = ({ text }: ShellArgument) => text !== undefined && (!text.startsWith('-') || options?.test(text));
  if (!options || !args.every(isPlain)) return [];
  if (name === 'mkdir') return operands;
  return operands.length === 2 ? operands.slice(1) : [];
}

/** Programs whose first operand is a pattern unless an option gives one. */
const SEARCHES: ReadonlySet<string> = new Set(['grep', 'egrep', 'fgrep', 'zgrep']);

/**
 * The arguments of a search without its pattern, which may look like the name of a secret. Applies only if every word is known and no
 * option gives a pattern (`-e`, `-f`) or takes the next word; only then is the first operand certainly not a file.
 */
function withoutPattern(args: readonly ShellArgument[]): readonly ShellArgument[] {
  const texts = args.map((it) => it.text);
  const isPlain = (it: string | undefined): it is string =>
    it !== undefined && (!it.startsWith('-') || PLAIN_OPTION.test(it));
  if (!texts.every(isPlain)) return args;
  const pattern = texts.findIndex((it) => !it.startsWith('-'));
  return args.filter((_, at) => at !== pattern);
}

/** Options of grep that take no value, and long options written in full; other options could hide a file. */
const PLAIN_OPTION =
  /^(-[EFGPiIvwxcLlqsbHhnTZzaoRrU]+|--(recursive|ignore-case|line-number|fixed-strings|extended-regexp|perl-regexp|word-regexp|count|files-with-matches|files-without-match|invert-match|only-matching|no-messages|text|color|(color|include|exclude|exclude-dir)=.*))$/;

/** The arguments of a program that runs git (`timeout 60 git diff HEAD`), without the commits that they name. */
function withoutCommitNames(args: readonly ShellArgument[]): readonly ShellArgument[] {
  const at = args.findIndex(({ text }) => text === 'git' || text?.endsWith('/git'));
  if (at < 0 || subcommand(args.slice(at + 1)) === 'mv') return args;
  return [...args.slice(0, at + 1), ...withoutCommits(args.slice(at + 1))];
}

/** `HEAD` as git names a commit: `HEAD`, `origin/HEAD`, `HEAD@{1}`, optionally followed by a colon and a path or another ref. */
const COMMIT_NAME = /^[+^]?(?:refs\/[\w./-]+\/|[\w.-]+\/)?HEAD(?:@\{[^}]*\})?(?:$|:)/;

/** Options of git whose next word is a file that git writes: `git log --output HEAD` writes a file called HEAD. */
const TAKES_FILE = /^(?:-o|--outp[a-z-]*)$/;

/** The arguments of git without the commits that they name. */
const withoutCommits = (args: readonly ShellArgument[]): readonly ShellArgument[] =>
  args.flatMap((it, at) => (TAKES_FILE.test(args[at - 1]?.text ?? '') ? [it] : pathsBesideCommit(it)));

/**
 * The part of a git argument that may be a path. Only `git mv` and options that take a file use `HEAD` as a file name; elsewhere it names a
 * commit, and rules about files called HEAD must not apply.
 */
function pathsBesideCommit(field: ShellArgument): readonly ShellArgument[] {
  const [name] = COMMIT_NAME.exec(field.text ?? '') ?? [];
  if (name === undefined) return [field];
  const rest = (field.text as string).slice(name.length);
  return rest === '' ? [] : [{ text: rest }];
}

function subcommand(args: readonly ShellArgument[]): string {
  for (let at = 0; at < args.length; at++) {
    const text = args[at]?.text ?? '';
    if (text === '-c' || text === '-C') at += 1;
    else if (!text.startsWith('-')) return text;
  }
  return '';
}

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
