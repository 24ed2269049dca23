/** Programs that run a command from their arguments, and where in the arguments that command is. Pure. */
import { isHarmlessOption } from './shell-builtins.ts';
import { DYNAMIC, type ShellArgument } from './words.ts';

/** A command found in the arguments of another. */
export type WrappedCommand =
  | {
      readonly kind: 'words';
      readonly fields: readonly ShellArgument[];
      /** Whether the command is looked up only as a program: `nohup echo` does not run the shell's own echo. */
      readonly external: boolean;
      /** Why the command may run differently from how it is written; absent if it does not. */
      readonly why?: string | undefined;
    }
  /** Text for a shell. */
  | { readonly kind: 'text'; readonly text: string };

export interface Unwrapped {
  readonly inner: readonly WrappedCommand[];
  /** Whether standard input is text for a shell (`text`), or words for the last of `inner` (`words`). */
  readonly reads?: 'text' | 'words';
  /** Why more may happen than the inner commands say; undefined if they are everything. */
  readonly why: string | undefined;
  /** Whether the text that runs is not known at all. */
  readonly isHidden?: true;
}

interface Wrapper {
  /** Whether the wrapper changes nothing about the inner command. */
  readonly harmless?: true;
  /** One-letter options that take a value. */
  readonly valued?: string;
  /** One-letter options without a value that change nothing either. */
  readonly flags?: string;
  /** Number of words between the options and the program. */
  readonly operands?: number;
  /** Whether `NAME=value` may stand before the program. */
  readonly assigns?: true;
  /** Whether the shell runs the wrapper itself, so that the inner command may be a builtin as well. */
  readonly shell?: true;
  /** What the wrapper changes about the inner command that its words don't show. */
  readonly why?: string;
}

const runner = (operands = 0, valued = ''): Wrapper => ({ operands, valued });

const WRAPPERS: Record<string, Wrapper> = {
  command: { harmless: true, shell: true },
  builtin: { harmless: true, shell: true },
  exec: { harmless: true, valued: 'a' },
  nohup: { harmless: true },
  nice: { harmless: true, valued: 'n', flags: '0123456789' },
  time: { harmless: true, valued: 'fo', flags: 'pv' },
  timeout: { harmless: true, valued: 'ks', flags: 'v', operands: 1 },
  env: { valued: 'uCSa', assigns: true, why: 'its environment is changed by env' },
  sudo: { valued: 'ugpCcDhrtTRU', assigns: true, why: 'it runs as somebody else' },
  doas: { valued: 'uC', why: 'it runs as somebody else' },
  xargs: { valued: 'adEILnPs', why: 'xargs adds words that it reads' },
  ionice: runner(0, 'cnpPu'),
  stdbuf: runner(0, 'ioe'),
  setsid: runner(),
  busybox: runner(),
  toybox: runner(),
  chroot: runner(1),
  chrt: runner(1, 'TPD'),
  chpst: runner(0, 'ueDlnsmofcrt'),
  eatmydata: runner(),
  fakeroot: runner(0, 'lisb'),
  firejail: runner(),
  flock: runner(1, 'wE'),
  gosu: runner(1),
  linux32: runner(),
  linux64: runner(),
  ltrace: runner(0, 'aAeoplnsuwx'),
  nsenter: runner(0, 'tSG'),
  numactl: runner(0, 'iNCmpP'),
  parallel: runner(0, 'jnNIS'),
  prlimit: runner(0, 'p'),
  setarch: runner(1),
  setpriv: runner(),
  strace: runner(0, 'abeEIoOpPsSuUX'),
  'systemd-run': runner(0, 'pEtuHM'),
  taskset: runner(1),
  torsocks: runner(),
  unbuffer: runner(),
  unshare: runner(0, 'SGRw'),
  valgrind: runner(),
  watch: runner(0, 'nq'),
  'xvfb-run': runner(0, 'aefnpsw'),
};

const isWrapper = (name: string): boolean => Object.hasOwn(WRAPPERS, name);

/** Programs that take shell text after `-c`. */
const TEXT_TAKERS = new Set(['su', 'runuser', 'flock', 'script', 'sg', 'watch', 'parallel']);

/** Shells, which run their standard input when no script is given. */
const SHELLS = new Set(['sh', 'bash', 'dash', 'zsh', 'ksh', 'ash', 'rbash', 'mksh']);

/** The commands in the arguments of `name`; undefined if the program runs none. `fields[0]` is the program itself. */
export function unwrap(name: string, fields: readonly ShellArgument[]): Unwrapped | undefined {
  if (SHELLS.has(name)) return unwrapShell(name, fields);
  if (name === 'eval') return unwrapEval(fields);
  if (name === 'trap') return unwrapTrap(fields);
  if (name === 'find') return unwrapFind(fields);
  const wrapper = isWrapper(name) ? WRAPPERS[name] : undefined;
  const texts = TEXT_TAKERS.has(name) ? textsAfterC(fields) : [];
  if (wrapper === undefined)
    return TEXT_TAKERS.has(name) ? { inner: texts, why: `${name} runs another program` } : undefined;
  const found = unwrapProgram(name, wrapper, fields);
  return found && { ...found, inner: [...found.inner, ...texts] };
}

function unwrapProgram(name: string, wrapper: Wrapper, fields: readonly ShellArgument[]): Unwrapped | undefined {
  const { at, clean, values } = skipOptions(fields, wrapper);
  const why = wrapper.harmless && clean ? undefined : `${name} runs another program`;
  // `command -v` only reports where a program is.
  if (name === 'command' && ['-v', '-V'].includes(fields[1]?.text ?? '')) return undefined;
  const split = name === 'env' ? values.flatMap((it) => (it.option === 'S' ? [it.text] : [])) : [];
  const inner = fields.slice(at + (wrapper.operands ?? 0));
  if (inner.length === 0 && split.length === 0) return clean ? undefined : { inner: [], why };
  return {
    inner: [
      ...split.map((text): WrappedCommand => ({ kind: 'text', text })),
      ...(inner.length === 0
        ? []
        : [
            {
              kind: 'words',
              fields: fillIn(name, inner, values),
              external: !wrapper.shell,
              why: wrapper.why,
            } as const,
          ]),
    ],
    why,
    ...(name === 'xargs' && { reads: 'words' }),
  };
}

/** The inner command with the words that xargs appends, or puts in place of its `-I` mark, as unknown words. */
function fillIn(
  name: string,
  inner: readonly ShellArgument[],
  values: readonly OptionValue[],
): readonly ShellArgument[] {
  if (name !== 'xargs') return inner;
  const mark = values.find((it) => it.option === 'I')?.text;
  if (mark === undefined) return [...inner, DYNAMIC];
  return inner.map((it) => (it.text?.includes(mark || '{}') ? DYNAMIC : it));
}

interface OptionValue {
  readonly option: string;
  readonly text: string;
}

interface Options {
  /** Index of the first word that is no option. */
  readonly at: number;
  /** Whether every option changes nothing. */
  readonly clean: boolean;
  readonly values: readonly OptionValue[];
}

function skipOptions(fields: readonly ShellArgument[], { valued = '', flags = '', assigns }: Wrapper): Options {
  const values: OptionValue[] = [];
  let clean = true;
  let at = 1;
  for (; at < fields.length; at++) {
    const text = fields[at]?.text;
    if (text === '--') {
      at += 1;
      break;
    }
    if (assigns && text !== undefined && /^[^=]+=/.test(text) && !text.startsWith('-')) continue;
    if (text === undefined || !text.startsWith('-') || text === '-') {
      if (text === '-' && assigns) continue;
      clean &&= text !== undefined;
      break;
    }
    const read = text.startsWith('--') ? readLong(text) : readCluster(text, valued, flags);
    clean &&= read.clean;
    if (read.option === undefined) continue;
    const value = read.value ?? fields[++at]?.text;
    if (value === undefined) clean = false;
    else values.push({ option: read.option, text: value });
  }
  if (assigns) while (/^[^=]+=/.test(fields[at]?.text ?? '')) at += 1;
  return { at, clean: clean && (fields[at] === undefined || fields[at]?.text !== undefined), values };
}

interface OptionRead {
  readonly clean: boolean;
  readonly option?: string;
  /** The option's value; undefined if the next word is the value. */
  readonly value?: string | undefined;
}

/** Reads a long option. Only `--option=value` can be told from a flag; long options with a separate value make the result unclean. */
function readLong(text: string): OptionRead {
  if (text.startsWith('--split-string='))
    return { clean: false, option: 'S', value: text.slice('--split-string='.length) };
  if (text === '--split-string') return { clean: false, option: 'S' };
  if (/^--(kill-after|signal|adjustment)=/.test(text)) return { clean: true };
  if (/^--(kill-after|signal|adjustment|user|group|chdir|unset|max-args|max-procs|arg-file|delimiter)$/.test(text))
    return { clean: false, option: text };
  return { clean: /^--(foreground|preserve-status|verbose|portability)$/.test(text) };
}

function readCluster(text: string, valued: string, flags: string): OptionRead {
  let clean = true;
  for (let at = 1; at < text.length; at++) {
    const letter = text[at] as string;
    // `exec -a` changes the program's name, `time -o` writes a file.
    clean &&= (valued + flags).includes(letter) && !'ao'.includes(letter);
    if (valued.includes(letter)) return { clean, option: letter, value: text.slice(at + 1) || undefined };
  }
  return { clean };
}

function unwrapShell(name: string, fields: readonly ShellArgument[]): Unwrapped | undefined {
  const unsure = { inner: [], why: `${name} runs text that only the shell knows`, isHidden: true } as const;
  let clean = name === 'bash' || name === 'sh' || name === 'dash';
  let [hasText, readsInput] = [false, false];
  let at = 1;
  for (; at < fields.length; at++) {
    const text = fields[at]?.text;
    if (text === undefined) return unsure;
    if (!/^[-+]./.test(text)) break;
    if (text === '--') {
      at += 1;
      break;
    }
    if (text.startsWith('--')) {
      if (text === '--rcfile' || text === '--init-file') at += 1;
      clean &&= text === '--norc' || text === '--noprofile';
      continue;
    }
    hasText ||= text.startsWith('-') && text.includes('c');
    readsInput ||= text.startsWith('-') && text.includes('s');
    clean &&= /^[-+][ceuxf]*o?[ceuxf]*$/.test(text);
    const named = text.match(/[oO]/g)?.length ?? 0;
    if (named > 0) clean &&= isHarmlessOption(fields[at + 1]?.text ?? '');
    at += named;
  }
  const operand = fields[at];
  if (hasText) {
    if (operand?.text === undefined) return unsure;
    const isKnown = clean && (name === 'bash' || isPlain(operand.text));
    return {
      inner: [{ kind: 'text', text: operand.text }],
      why: isKnown ? undefined : `${name} may read this text otherwise than bash does`,
    };
  }
  if (operand === undefined || readsInput || operand.text === '-')
    return { inner: [], why: `${name} runs what it reads`, reads: 'text' };
  return operand.text === undefined ? unsure : undefined;
}

/** Whether dash and bash read the text alike: words, quotes, lists, pipes and simple redirections. */
function isPlain(text: string): boolean {
  const rest = text.replaceAll(/[<>]&(?=[\d-])/g, '');
  return /^[\w\s./:=@%+,'"\\;|&<>-]*$/.test(rest) && !/&>|\|&|[<>]&|<<|;;|;&/.test(rest);
}

function unwrapEval(fields: readonly ShellArgument[]): Unwrapped {
  const texts = fields.slice(1).map((it) => it.text);
  if (texts.includes(undefined)) return { inner: [], why: 'eval runs text that only the shell knows', isHidden: true };
  return { inner: [{ kind: 'text', text: texts.join(' ') }], why: 'eval runs text' };
}

function unwrapTrap(fields: readonly ShellArgument[]): Unwrapped {
  const text = fields.slice(1).find((it) => !it.text?.startsWith('-'))?.text;
  return { inner: text === undefined ? [] : [{ kind: 'text', text }], why: 'trap runs text later' };
}

function unwrapFind(fields: readonly ShellArgument[]): Unwrapped | undefined {
  const inner: WrappedCommand[] = [];
  for (let at = 1; at < fields.length; at++) {
    if (!/^-(exec|execdir|ok|okdir)$/.test(fields[at]?.text ?? '')) continue;
    const rest = fields.slice(at + 1);
    const end = rest.findIndex((it, to) => it.text === ';' || (it.text === '+' && rest[to - 1]?.text === '{}'));
    const words = rest.slice(0, end < 0 ? rest.length : end);
    const filled = words.map((it) => (it.text?.includes('{}') ? DYNAMIC : it));
    inner.push({ kind: 'words', fields: filled, external: true, why: 'find puts names into it' });
    at += words.length;
  }
  return inner.length === 0 ? undefined : { inner, why: 'find runs another program' };
}

function textsAfterC(fields: readonly ShellArgument[]): WrappedCommand[] {
  return fields.flatMap((it, at): WrappedCommand[] => {
    const text = /^-\w*c$|^--command$/.test(it.text ?? '') ? fields[at + 1]?.text : undefined;
    return text === undefined ? [] : [{ kind: 'text', text }];
  });
}
