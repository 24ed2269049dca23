/** Reads the arguments of `ringfence sh` as bash reads its own. */
import { harmless, UsageError } from '../output.ts';

/** What a shell is to run. */
export type ShellSource =
  | { readonly kind: 'command'; readonly command: string; readonly words: readonly string[] }
  | { readonly kind: 'file'; readonly path: string; readonly words: readonly string[] }
  /** `words` are positional parameters. */
  | { readonly kind: 'input'; readonly words: readonly string[] };

export interface ShellArguments {
  readonly source: ShellSource;
  /** Options of bash that change what a command does, such as `-e`. */
  readonly options: readonly string[];
}

/** Letters that make a shell interactive or a login shell; the sandbox has no profile of a person, so they change nothing. */
const IGNORED = 'ilr';
/** Letters that change what a command does. */
const KEPT = 'abefhkmnptuvxBCEHPT';
const LONG_IGNORED: ReadonlySet<string> = new Set(['--login', '--noprofile', '--norc', '--noediting', '--verbose']);
const LONG_WITH_FILE: ReadonlySet<string> = new Set(['--rcfile', '--init-file']);

/** Throws UsageError for an option that bash has not, or a missing command. */
export function readShellArguments(words: readonly string[]): ShellArguments {
  const options: string[] = [];
  let isCommand = false;
  let isInput = false;
  let at = 0;
  for (; at < words.length; at++) {
    const word = words[at] as string;
    if (word === '--' || word === '-') {
      at += 1;
      break;
    }
    if (!/^[-+]./.test(word)) break;
    if (LONG_IGNORED.has(word)) continue;
    if (LONG_WITH_FILE.has(word)) at += 1;
    else if (word === '--posix') options.push(word);
    else if (word.startsWith('--')) throw unknown(word);
    else {
      const sign = word.charAt(0);
      for (const letter of word.slice(1)) {
        if (letter === 'c' && sign === '-') isCommand = true;
        else if (letter === 's' && sign === '-') isInput = true;
        else if (letter === 'o' || letter === 'O') options.push(`${sign}${letter}`, argumentOf(words, ++at, word));
        else if (KEPT.includes(letter)) options.push(`${sign}${letter}`);
        else if (!IGNORED.includes(letter)) throw unknown(word);
      }
    }
  }
  const rest = words.slice(at);
  const [first, ...others] = rest;
  if (isCommand) {
    if (first === undefined) throw new UsageError('-c: option requires an argument: the command');
    return { options, source: { kind: 'command', command: first, words: others } };
  }
  if (first !== undefined && !isInput) return { options, source: { kind: 'file', path: first, words: others } };
  return { options, source: { kind: 'input', words: rest } };
}

function argumentOf(words: readonly string[], at: number, option: string): string {
  const value = words[at];
  if (value === undefined) throw new UsageError(`${harmless(option)}: option requires an argument`);
  return value;
}

const unknown = (word: string): UsageError =>
  new UsageError(`${harmless(word)}: no option of bash that ringfence sh takes`);

const quoted = (word: string): string =>
  /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`;

/**
 * The command line to run, and what is its standard input: a command without options and parameters stays as it is, so
 * that a person who is asked sees what the agent wrote.
 */
export function toCommandLine({ source, options }: ShellArguments, input: string): { command: string; stdin: string } {
  const bash = ['bash', ...options];
  if (source.kind === 'file')
    return { command: [...bash, source.path, ...source.words].map(quoted).join(' '), stdin: input };
  const isPlain = options.length === 0 && source.words.length === 0;
  if (source.kind === 'command') {
    const words = [...bash, '-c', source.command, ...source.words];
    return { command: isPlain ? source.command : words.map(quoted).join(' '), stdin: input };
  }
  const words = [...bash, '-c', input, 'bash', ...source.words];
  return { command: isPlain ? input : words.map(quoted).join(' '), stdin: '' };
}

/** Options of `ringfence sh` itself, which come first. */
const OWN_WITH_VALUE: ReadonlySet<string> = new Set(['--socket', '--state', '--workspace', '--session', '--mode']);
const OWN: ReadonlySet<string> = new Set(['--no-autostart', '--json', '--help']);

/**
 * The arguments of the program with `--` between the options of `ringfence sh` and what the shell is given, of which the
 * reader of options must read nothing: `-c` takes a command that may be followed by words such as `--json`.
 */
export function withShellApart(argv: readonly string[]): string[] {
  const [node = '', program = '', verb, ...words] = argv;
  if (verb !== 'sh') return [...argv];
  let at = 0;
  while (OWN.has(words[at] ?? '') || OWN_WITH_VALUE.has(words[at] ?? '')) at += OWN.has(words[at] as string) ? 1 : 2;
  return [node, program, verb, ...words.slice(0, at), '--', ...words.slice(at)];
}
