/** The shell's builtins, and how each affects the commands around it. Pure. */
import type { ShellArgument } from './words.ts';

const BUILTINS = new Set(
  (
    '. : [ alias bg bind break builtin caller cd command compgen complete compopt continue declare dirs disown echo ' +
    'enable eval exec exit export false fc fg getopts hash help history jobs kill let local logout mapfile popd printf ' +
    'pushd pwd read readarray readonly return set shift shopt source suspend test times trap true type typeset ulimit ' +
    'umask unalias unset wait'
  ).split(' '),
);

/** Whether bash runs `name` itself rather than look for a program. */
export const isBuiltin = (name: string): boolean => BUILTINS.has(name);

/**
 * Variables that the shell or the loader acts on; setting one changes what later words mean. Bash evaluates the values of some as
 * arithmetic (`RANDOM='a[$(rm x)]'`), and HISTFILESIZE truncates the file that HISTFILE names.
 */
const TELLING =
  /^(RANDOM|SRANDOM|SECONDS|LINENO|OPTIND|E?UID|PPID|BASHPID|EPOCH\w*|HIST\w*|PATH|HOME|PWD|OLDPWD|CDPATH|IFS|ENV|SHELL|PS4|PROMPT_COMMAND|POSIXLY_CORRECT|GLOBIGNORE|EXECIGNORE|SHELLOPTS|BASHOPTS|BASH_\w*|GIT_\w*|LD_\w*|DYLD_\w*|LANG|LANGUAGE|LC_\w*|TEXTDOMAIN\w*|TERM|TERMINFO\w*|TMP|TMPDIR|TZ|LOCPATH|GCONV_PATH)$/;

/**
 * Whether setting the variable `name` may change what other commands of the text do. `exported` holds the variables that the caller sets.
 */
export const isTelling = (name: string, exported: ReadonlySet<string>): boolean =>
  TELLING.test(name) || exported.has(name);

/** Effects of a builtin on the reading of a command line. */
export interface BuiltinEffect {
  /** Why no command of the same text can be known any more. */
  readonly lookup?: string;
  /** Why this command does more than its words say. */
  readonly hiddenEffect?: string;
  /** The shell's new working directory; `path` is undefined if only the shell knows it. */
  readonly goesTo?: { readonly path: string | undefined };
}

const NOTHING: BuiltinEffect = {};
const HARMLESS_OPTIONS = new Set(
  'errexit nounset pipefail xtrace noglob noclobber errtrace functrace verbose extglob globstar nullglob dotglob nocaseglob nocasematch failglob inherit_errexit lastpipe'.split(
    ' ',
  ),
);

/** Whether a shell option has no influence on which commands a text runs. */
export const isHarmlessOption = (name: string): boolean => HARMLESS_OPTIONS.has(name);

/** What running the builtin `fields[0]` with these words changes. */
export function changeBy(fields: readonly ShellArgument[], exported: ReadonlySet<string>): BuiltinEffect {
  const name = fields[0]?.text as string;
  const args = fields.slice(1);
  switch (name) {
    case 'cd':
    case 'pushd':
      return { goesTo: { path: destination(name, args) } };
    case 'popd':
      return { goesTo: { path: undefined } };
    case 'alias':
    case 'unalias':
    case 'enable':
    case 'hash':
    case 'trap':
    case 'source':
    case '.':
    case 'export':
      return { lookup: `${name} changes what later commands are` };
    case 'eval':
      return args.some((it) => it.text === undefined) ? { lookup: 'eval may change what later commands are' } : NOTHING;
    case 'set':
    case 'shopt':
      return setsOnly(args) ? NOTHING : { lookup: `${name} may change what later commands are` };
    case 'declare':
    case 'typeset':
    case 'local':
    case 'readonly':
      return args.every((it) => !/^[-+]/.test(it.text ?? '') || /^[-+][aArgpfF]+$/.test(it.text ?? ''))
        ? assigned(name, args, exported)
        : { lookup: `${name} may change what later commands are` };
    case 'read':
    case 'mapfile':
    case 'readarray':
    case 'unset':
    case 'let':
      return assigned(name, args, exported);
    case 'getopts':
      return assigned(name, args.slice(1, 2), exported);
    case 'printf':
      return args.length > 1 && (args[0]?.text ?? '-v').startsWith('-v')
        ? assigned(name, args.slice(0, 2), exported)
        : NOTHING;
    case 'test':
    case '[':
      return testsVariable(args) ? { hiddenEffect: `${name} -v may run what a subscript holds` } : NOTHING;
    case 'bind':
    case 'compgen':
    case 'complete':
    case 'compopt':
    case 'fc':
    case 'history':
      return { hiddenEffect: `${name} may run text` };
    case 'jobs':
      return args.some((it) => it.text === undefined || it.text.startsWith('-x'))
        ? { hiddenEffect: 'jobs -x runs a command' }
        : NOTHING;
    default:
      return NOTHING;
  }
}

function destination(name: string, args: readonly ShellArgument[]): string | undefined {
  const target = args.find((it) => it.text === undefined || !/^-[LPe@]+$|^--$/.test(it.text));
  if (target === undefined) return name === 'cd' ? '~' : undefined;
  return /^[-+]\d*$/.test(target.text ?? '-') ? undefined : target.text;
}

/**
 * Whether `set` or `shopt` only sets harmless options and positional parameters; `set -a`, `set -k`, `shopt -s expand_aliases` and unknown
 * options are not harmless.
 */
function setsOnly(args: readonly ShellArgument[]): boolean {
  const dashes = args.findIndex((it) => it.text === '--');
  return args
    .slice(0, dashes < 0 ? args.length : dashes)
    .every(({ text }) => text !== undefined && (/^[-+][euxfvCETsuqo]+$/.test(text) || HARMLESS_OPTIONS.has(text)));
}

/** The effect of a builtin that sets variables. Bash evaluates subscripts, which can run commands: `read 'a[$(rm x)]'`. */
function assigned(name: string, args: readonly ShellArgument[], exported: ReadonlySet<string>): BuiltinEffect {
  const isPlain = ({ text, sets }: ShellArgument) => {
    const variable = sets ?? /^(?:-v)?(\w*)/.exec(text ?? '')?.[1] ?? '';
    return (sets ?? text) !== undefined && !(text ?? '').includes('[') && !isTelling(variable, exported);
  };
  const runsText =
    name === 'mapfile' || name === 'readarray' ? args.some((it) => /^-\w*C/.test(it.text ?? '')) : name === 'let';
  return args.every(isPlain) && !runsText ? NOTHING : { lookup: `${name} sets something that only the shell knows` };
}

function testsVariable(args: readonly ShellArgument[]): boolean {
  return args.some((it, at) => it.text === '-v' && at + 1 < args.length && !/^[^[]*$/.test(args[at + 1]?.text ?? '['));
}
