/**
 * Collects what a command line does from its syntax: its simple commands and the ones that they run, its redirections, the paths that it
 * names.
 */
import type { Assignment, Command, Redirect, Redirection, Word } from 'unbash';
import type { Effect } from '../../base/call.ts';
import { defaultLimits as limits } from '../../base/limits.ts';
import type { SimpleCommand } from '../question.ts';
import { isKnownPath } from '../target.ts';
import { withoutMessages } from './mentions.ts';
import { scriptsRunBy } from './package-scripts.ts';
import { changeBy, isBuiltin, isTelling } from './shell-builtins.ts';
import { inputOf, type Listener, Syntax, SyntaxBoundError } from './syntax.ts';
import { DYNAMIC, type ShellArgument, toFields, toSingleField } from './words.ts';
import { unwrap, type WrappedCommand } from './wrappers.ts';

/** The surroundings in which a command line is to run. */
export interface CommandContext {
  /** workspace, cwd and home are absolute. */
  readonly workspace: string;
  readonly cwd: string;
  readonly home: string;
  /** Absolute path of the program called `name`, see programs.ts; undefined if there is none. */
  readonly resolve: (name: string) => string | undefined;
  /** Folders outside of the system whose programs rules may refer to by name: the toolchains that commands see; absolute. */
  readonly toolchains?: readonly string[] | undefined;
  /** Text of a script of the package.json in an absolute folder, see package-scripts.ts; undefined if it has none. */
  readonly script?: (folder: string, name: string) => string | undefined;
  /** Environment variables that the caller sets in addition to ours. */
  readonly exported?: Readonly<Record<string, string>>;
}

/** A simple command that is still being read. */
export type CommandDraft = { -readonly [K in keyof SimpleCommand]: SimpleCommand[K] };

/** One simple command to be added. */
interface UnreadCommand {
  readonly fields: readonly ShellArgument[];
  readonly text: string;
  readonly nesting: number;
  readonly external: boolean;
  readonly why: string | undefined;
  /** Text of its standard input, if the command line holds it. */
  readonly input?: string | undefined;
}

/** Most characters kept of a simple command's source text; otherwise thousands of nested commands would each hold most of the line. */
const TEXT_SHOWN_MAX = 256;
/** Most reasons kept; one is enough to decide. */
const REASONS_MAX = 32;
/** Variables that callers may set and that change only the looks of a program's output. */
const HARMLESS_VARIABLE = /^(COLUMNS|LINES|CI|NO_COLOR|FORCE_COLOR|CLICOLOR)$/;
/**
 * Variables that select system files and are harmless unless their value is a path: message catalogues contain format strings. LANGUAGE is
 * a list of such names, so it is not among them.
 */
const NAMING_VARIABLE = /^(LANG|LC_\w+|TERM|TZ)$/;

const isHarmless = ([name, value]: [string, string]): boolean =>
  HARMLESS_VARIABLE.test(name) || (NAMING_VARIABLE.test(name) && !/\/|\.\./.test(value));

/** Everything found so far, in the order of the text. */
export class CommandReader implements Listener {
  readonly commands: CommandDraft[] = [];
  readonly redirects: { kinds: readonly Effect['kind'][]; field: ShellArgument }[] = [];
  readonly named: ShellArgument[] = [];
  /** Whether a shell runs a text that is not known. */
  isHidden = false;
  /** Names of package.json scripts that the line runs. */
  readonly scripts = new Set<string>();
  readonly reasons = new Set<string>();
  readonly functions = new Set<string>();
  /** Directories that `cd` changes to; undefined if only the shell knows. */
  readonly goesTo: (string | undefined)[] = [];
  /** Why no command can be known: a loop or a function may run an earlier command after what changes it. */
  lookup: string | undefined;

  readonly #context: CommandContext;
  readonly #exported: ReadonlySet<string>;
  readonly #syntax = new Syntax(this);
  readonly #programs = new Map<string, string | undefined>();
  #words = 0;

  constructor(context: CommandContext) {
    this.#context = context;
    const exported = Object.entries(context.exported ?? {});
    this.#exported = new Set(exported.map(([name]) => name));
    const telling = exported.find((it) => !isHarmless(it));
    if (telling !== undefined) this.lookup = `the caller sets ${telling[0]}`;
  }

  read(text: string, nesting: number): void {
    this.#syntax.read(text, nesting);
  }

  unknown(why: string): void {
    if (this.reasons.size < REASONS_MAX) this.reasons.add(why);
  }

  variable(name: string): void {
    if (isTelling(name, this.#exported)) this.#changes(`it sets ${name}`);
  }

  function(name: string): void {
    this.functions.add(name);
  }

  word(node: Word): void {
    this.#name(this.#fields(node));
  }

  redirect({ operator, descriptor, target }: Redirect): void {
    if (target === undefined) return this.unknown('a redirection has no target');
    this.#assertRoom();
    const fields = this.#fields(target);
    // Several words are an error in bash; what bash reports for one that we can't read does not matter.
    const field = fields.length === 1 ? (fields[0] as ShellArgument) : DYNAMIC;
    const isDuplicate = /^(\d+-?|-)$/.test(field.text ?? '');
    if ((operator === '<&' || operator === '>&') && isDuplicate) return;
    // After `<&` and `2>&` anything but a descriptor is an error; `>&` and `1>&` accept files.
    const takesFile = descriptor === undefined || (descriptor.type === 'FileDescriptor' && descriptor.value === 1);
    if (field.text === undefined && (operator === '<&' || (operator === '>&' && !takesFile))) return;
    const kinds =
      operator === '<>' ? (['read', 'write'] as const) : ([operator.includes('>') ? 'write' : 'read'] as const);
    this.redirects.push({ kinds, field });
  }

  command(node: Command, text: string, nesting: number): void {
    if (node.name === undefined) return;
    const fields = [node.name, ...node.args].flatMap((it) =>
      it.type === 'Word' ? this.#fields(it) : this.#assigned(it),
    );
    const assigns = node.prefix.some((it) => it.type === 'Assignment');
    this.#simple({
      fields,
      nesting,
      external: false,
      text: text.length > TEXT_SHOWN_MAX ? `${text.slice(0, TEXT_SHOWN_MAX)}…` : text,
      why: assigns ? 'an assignment precedes it' : undefined,
      input: this.#input(node.redirects),
    });
  }

  #simple(simple: UnreadCommand): void {
    const { fields, text, why } = simple;
    const [first] = fields;
    if (first === undefined) return;
    this.#assertRoom();
    const draft: CommandDraft = {
      text,
      words: fields.map((it) => it.text),
      unknown: why,
      program: undefined,
      programPath: undefined,
    };
    this.commands.push(draft);
    if (first.text === undefined) {
      draft.unknown ??= 'only the shell knows which program it runs';
      this.#name(fields);
      this.#afterDynamic(simple);
      return;
    }
    const builtin = !simple.external && isBuiltin(first.text);
    if (builtin) draft.program = first.text;
    else this.#resolve(draft, first.text);
    const name = draft.program ?? first.text.slice(first.text.lastIndexOf('/') + 1);
    this.#name(withoutMessages(draft.program ?? '', fields));
    if (first.text.includes('/')) this.#name([first]);
    if (builtin) this.#change(draft, fields);
    for (const it of scriptsRunBy(name, draft.words)) this.scripts.add(it);
    this.#unwrap(draft, name, simple);
  }

  #assertRoom(): void {
    if (this.commands.length + this.redirects.length < limits.commandPartsMax) return;
    throw new SyntaxBoundError(`it has more than ${limits.commandPartsMax} commands and redirections`);
  }

  /** Reads the words after a dynamic one as a command: `$x rm y` runs `rm` if `$x` is empty. */
  #afterDynamic({ fields, text, nesting }: UnreadCommand): void {
    const rest = fields.slice(fields.findIndex((it) => it.text !== undefined));
    if (rest[0]?.text === undefined) return;
    this.#simple({
      fields: rest,
      external: false,
      why: 'only the shell knows what precedes it',
      text,
      nesting,
    });
  }

  #resolve(draft: CommandDraft, name: string): void {
    if (!this.#programs.has(name)) this.#programs.set(name, this.#context.resolve(name));
    const path = this.#programs.get(name);
    draft.programPath = path;
    // Keeps the name in the call: rules say `awk`, whatever file the system links it to.
    if (path !== undefined && isKnownPath(path, this.#context)) draft.program = name.slice(name.lastIndexOf('/') + 1);
  }

  #change(draft: CommandDraft, fields: readonly ShellArgument[]): void {
    const { lookup, hiddenEffect, goesTo } = changeBy(fields, this.#exported);
    if (lookup !== undefined) this.#changes(lookup);
    if (hiddenEffect !== undefined) draft.unknown ??= hiddenEffect;
    if (goesTo !== undefined) this.goesTo.push(goesTo.path);
  }

  #changes(why: string): void {
    this.lookup ??= why;
    this.unknown(why);
  }

  /** Reads the commands that an outer command runs. The outer one is known if it is harmless and all inner ones are known. */
  #unwrap(draft: CommandDraft, name: string, simple: UnreadCommand): void {
    const unwrapped = unwrap(name, simple.fields);
    if (!unwrapped) return;
    draft.unknown ??= unwrapped.why;
    if (unwrapped.isHidden || (unwrapped.reads === 'text' && simple.input === undefined)) this.isHidden = true;
    const from = this.commands.length;
    for (const it of unwrapped.inner) this.#inner(it, simple);
    if (unwrapped.reads === 'text' && simple.input !== undefined)
      this.#inner({ kind: 'text', text: simple.input }, simple);
    if (unwrapped.reads === 'words') {
      this.#name((simple.input?.split(/\s+/, limits.commandMentionsMax) ?? []).map((text) => ({ text })));
    }
    const unsure = this.commands.slice(from).find((it) => it.unknown !== undefined);
    if (unsure) draft.unknown ??= `${name} runs another program: ${unsure.unknown}`;
  }

  #inner(inner: WrappedCommand, { text, nesting }: UnreadCommand): void {
    if (nesting >= limits.commandTextsMax)
      return this.unknown(`it has more than ${limits.commandTextsMax} commands within commands`);
    if (inner.kind === 'text') return this.read(inner.text, nesting + 1);
    const { fields, external, why } = inner;
    this.#simple({ fields, external, why, text, nesting: nesting + 1 });
  }

  #input(redirects: readonly Redirection[]): string | undefined {
    for (const it of redirects) {
      if (it.type === 'Redirect') continue;
      const input = inputOf(it);
      const text =
        input === undefined || typeof input === 'string' ? input : toSingleField(input, this.#context.home).text;
      // A single word may be a name that the command reads: `xargs cat <<< .env`.
      if (it.type === 'HereString' && text !== undefined && !/\s/.test(text)) this.#name([{ text }]);
      if (text !== undefined) return text;
    }
    return undefined;
  }

  #fields(word: Word): ShellArgument[] {
    const fields = toFields(word, this.#context.home);
    this.#words += fields.length;
    if (this.#words > limits.commandWordsMax)
      throw new SyntaxBoundError(`it has more than ${limits.commandWordsMax} words`);
    this.#syntax.spend(fields.reduce((sum, it) => sum + (it.text ?? it.glob ?? '').length, 0));
    return fields;
  }

  /**
   * An assignment argument such as `declare x=…`. The shell expands no braces in it; values with braces or tildes count as unknown here.
   */
  #assigned({ name, value, append, index, text }: Assignment): ShellArgument {
    if (index || value.type !== 'Word' || /[{~]/.test(text)) return { ...DYNAMIC, sets: name };
    const { text: known } = toSingleField(value, this.#context.home);
    return known === undefined
      ? { ...DYNAMIC, sets: name }
      : { text: `${name}${append ? '+' : ''}=${known}`, sets: name };
  }

  #name(fields: readonly ShellArgument[]): void {
    for (const it of fields) if (it.text !== undefined || it.glob !== undefined) this.named.push(it);
  }
}
