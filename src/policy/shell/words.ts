/** Words of a command line as bash passes them to a program: quotes, escapes, braces and tildes resolved. Pure. */
import type { Word, WordPart } from 'unbash';

export interface ShellArgument {
  /** Undefined if only the shell knows it. */
  readonly text: string | undefined;
  /** The pattern, if unquoted glob characters are all that is unknown; quoted ones are escaped. */
  readonly glob?: string;
  /** The variable that the argument sets, if it is an assignment (as of `declare`). */
  readonly sets?: string;
}

export const DYNAMIC: ShellArgument = { text: undefined };

/** `plain` may contain active braces, tildes and glob characters; `quoted` is literal; `dynamic` is known only at run time. */
interface WordAtom {
  readonly kind: 'plain' | 'quoted' | 'dynamic';
  readonly text: string;
}

/** Most arguments that the braces of one word may expand to; nested ones multiply: `{a,b}` thirty times would be a billion. */
const FIELDS_MAX = 64;
/** Most braces and commas in one word; the search for each closing brace is linear. */
const BRACE_MARKS_MAX = 256;

/** The arguments that a word expands to: several with braces, none for `{,}`, otherwise one. `home` replaces a tilde. */
export function toFields(word: Word, home: string): ShellArgument[] {
  const unfolded = expandBraces(toAtoms(word));
  if (unfolded === undefined) return [DYNAMIC];
  const braced = unfolded.length !== 1;
  return unfolded
    .filter((it) => it.length > 0)
    .map((it) => (braced && it.some(isAssignedTilde) ? DYNAMIC : toField(it, home)));
}

/** The single argument that a word becomes as the value of an assignment or the target of a redirection. */
export function toSingleField(word: Word, home: string): ShellArgument {
  return toField(toAtoms(word), home);
}

function toAtoms(word: Word): WordAtom[] {
  const { parts } = word;
  // unbash 6.0.4 takes the `$` before an escaped line end literally; bash joins the lines first.
  if (word.text.includes('$\\\n')) return [{ kind: 'dynamic', text: '' }];
  return (parts === undefined ? unescaped(word.text) : parts.flatMap(toPartAtoms)).filter(
    (it) => it.kind !== 'plain' || it.text !== '',
  );
}

function toPartAtoms(part: WordPart): WordAtom[] {
  switch (part.type) {
    case 'Literal':
      return unescaped(part.text);
    case 'SingleQuoted':
      return [{ kind: 'quoted', text: part.value }];
    // unbash 6.0.4 drops an escaped line end here, which bash keeps, and keeps `\x{2d}`, which bash reads as a character.
    case 'AnsiCQuoted':
      return [/\\(\n|x\{)/.test(part.text) ? { kind: 'dynamic', text: '' } : { kind: 'quoted', text: part.value }];
    case 'DoubleQuoted':
      return [{ kind: 'quoted', text: '' }, ...part.parts.map(toQuotedAtom)];
    case 'Glob':
      return part.kind === 'bracket' ? enclose('[', part.parts.flatMap(toPartAtoms), ']') : unescaped(part.text);
    case 'BraceExpansion':
      return enclose('{', part.parts?.flatMap(toPartAtoms) ?? unescaped(part.text.slice(1, -1)), '}');
    case 'ExtendedGlob':
      return [{ kind: 'plain', text: '*' }];
    // Bash translates `$"…"` with a catalogue that the environment names.
    case 'LocaleString':
    case 'SimpleExpansion':
    case 'ParameterExpansion':
    case 'CommandExpansion':
    case 'ArithmeticExpansion':
    case 'ProcessSubstitution':
      return [{ kind: 'dynamic', text: '' }];
    default:
      return part satisfies never;
  }
}

function toQuotedAtom(part: WordPart): WordAtom {
  return part.type === 'Literal' ? { kind: 'quoted', text: part.value } : { kind: 'dynamic', text: '' };
}

const enclose = (open: string, inner: readonly WordAtom[], close: string): WordAtom[] => [
  { kind: 'plain', text: open },
  ...inner,
  { kind: 'plain', text: close },
];

/** Splits unquoted source text: a backslash quotes the next character, an escaped line end disappears. */
function unescaped(raw: string): WordAtom[] {
  if (!raw.includes('\\')) return [{ kind: 'plain', text: raw }];
  return (raw.match(/\\[\s\S]?|[^\\]+/g) ?? []).flatMap((it): WordAtom[] => {
    if (it === '\\\n') return [];
    // At the end of the script this is a backslash or nothing, depending on the escaped line ends before it.
    if (it === '\\') return [{ kind: 'dynamic', text: '' }];
    return [it.startsWith('\\') ? { kind: 'quoted', text: it.slice(1) } : { kind: 'plain', text: it }];
  });
}

/** Expands braces; undefined if there are too many results, or a sequence that is left to the shell (`{1..9..2}`). */
function expandBraces(atoms: readonly WordAtom[]): WordAtom[][] | undefined {
  if (!atoms.some((it) => it.kind === 'plain' && it.text.includes('{'))) return [[...atoms]];
  const tokens = atoms.flatMap((it): WordAtom[] =>
    it.kind === 'plain' ? (it.text.match(/[{},]|[^{},]+/g) ?? []).map((text) => ({ kind: 'plain', text })) : [it],
  );
  if (tokens.filter((it) => isMark(it)).length > BRACE_MARKS_MAX) return undefined;
  return unfold(tokens);
}

const isMark = (it: WordAtom | undefined, ...marks: readonly string[]) =>
  it?.kind === 'plain' && (marks.length > 0 ? marks.includes(it.text) : /^[{},]$/.test(it.text));

const isDivider = (it: WordAtom) => isMark(it, ',') || (it.kind === 'plain' && it.text.includes('..'));

function unfold(tokens: readonly WordAtom[]): WordAtom[][] | undefined {
  for (let open = 0; open < tokens.length; open++) {
    if (!isMark(tokens[open], '{')) continue;
    const group = findGroup(tokens, open);
    if (group === undefined) continue;
    const inner = tokens.slice(open + 1, group.close);
    const alternatives = group.commas.length > 0 ? split(tokens, open, group) : toSequence(inner);
    // Bash looks for a comma after such a group as well: `{1}a,-b}` becomes `1}a` and `-b`.
    if (alternatives === undefined && tokens.slice(group.close).some(isDivider)) return undefined;
    if (alternatives === undefined) continue;
    if (alternatives === 'shell') return undefined;
    const rest = unfold(tokens.slice(group.close + 1));
    const heads = alternatives.map((it) => unfold(it));
    if (rest === undefined || heads.includes(undefined)) return undefined;
    const made = heads.flatMap((them) => (them as WordAtom[][]).map((it) => [...tokens.slice(0, open), ...it]));
    if (made.length * rest.length > FIELDS_MAX) return undefined;
    return made.flatMap((head) => rest.map((tail) => [...head, ...tail]));
  }
  return [[...tokens]];
}

interface BraceGroup {
  readonly close: number;
  /** Commas of this nesting level only. */
  readonly commas: readonly number[];
}

function findGroup(tokens: readonly WordAtom[], open: number): BraceGroup | undefined {
  const commas: number[] = [];
  let depth = 0;
  for (let at = open; at < tokens.length; at++) {
    if (isMark(tokens[at], '{')) depth += 1;
    else if (isMark(tokens[at], '}')) depth -= 1;
    else if (depth === 1 && isMark(tokens[at], ',')) commas.push(at);
    if (depth === 0) return { close: at, commas };
  }
  return undefined;
}

function split(tokens: readonly WordAtom[], open: number, { close, commas }: BraceGroup): WordAtom[][] {
  const ends = [...commas, close];
  return ends.map((end, at) => tokens.slice((at === 0 ? open : (ends[at - 1] as number)) + 1, end));
}

/**
 * The items of a sequence such as `{1..3}`; undefined if the text is no sequence and the braces are literal; `shell` if the sequence is
 * left to the shell.
 */
function toSequence(inner: readonly WordAtom[]): WordAtom[][] | 'shell' | undefined {
  const text = inner.map((it) => it.text).join('');
  if (!text.includes('..')) return undefined;
  const [first, last] = /^(-?\d{1,9})\.\.(-?\d{1,9})$/.exec(text)?.slice(1).map(Number) ?? [];
  if (first === undefined || last === undefined || /(^|\.\.)-?0\d/.test(text)) return 'shell';
  const count = Math.abs(last - first) + 1;
  if (count > FIELDS_MAX) return 'shell';
  return Array.from({ length: count }, (_, at) => [
    { kind: 'plain', text: `${first < last ? first + at : first - at}` },
  ]);
}

function toField(atoms: readonly WordAtom[], home: string): ShellArgument {
  if (atoms.some((it) => it.kind === 'dynamic')) return DYNAMIC;
  const resolved = resolveTilde(joinPlain(atoms), home);
  if (resolved === undefined) return DYNAMIC;
  if (!hasGlob(resolved)) return { text: resolved.map((it) => it.text).join('') };
  return { text: undefined, glob: toGlob(resolved) };
}

/** Joins plain pieces that brace expansion separated: the meaning of a tilde depends on all text after it. */
function joinPlain(atoms: readonly WordAtom[]): WordAtom[] {
  const joined: WordAtom[] = [];
  for (const it of atoms) {
    const last = joined.at(-1);
    if (it.kind === 'plain' && last?.kind === 'plain')
      joined.splice(-1, 1, { kind: 'plain', text: last.text + it.text });
    else joined.push(it);
  }
  return joined;
}

const isAssignedTilde = (it: WordAtom) => it.kind === 'plain' && /[=:]~/.test(it.text);

/** Replaces a leading tilde; undefined for another user's home and other forms that only the shell knows (`~user`, `~+`). */
function resolveTilde(atoms: readonly WordAtom[], home: string): readonly WordAtom[] | undefined {
  const [first, ...rest] = atoms;
  if (first?.kind !== 'plain') return atoms;
  const slash = first.text.indexOf('/');
  const prefix = slash < 0 ? first.text : first.text.slice(0, slash);
  const after = first.text.slice(prefix.length);
  // Bash also expands the tilde in arguments that look like assignments: `dd if=~/x`.
  const [, name, tilde] = /^([A-Za-z_][A-Za-z0-9_]*\+?=)?(~.*)$/.exec(prefix) ?? [];
  const isCut = slash < 0 && rest.length > 0;
  // Also after quotes: `x='a':~`.
  if (tilde === undefined || isCut) return atoms.some(isAssignedTilde) ? undefined : atoms;
  if (tilde !== '~' || atoms.some((it) => it.kind === 'plain' && it.text.includes(':~'))) return undefined;
  return [{ kind: 'quoted', text: `${name ?? ''}${home}` }, { kind: 'plain', text: after }, ...rest];
}

function hasGlob(atoms: readonly WordAtom[]): boolean {
  const plain = atoms.map((it) => (it.kind === 'plain' ? it.text : '')).join('');
  return /[*?]/.test(plain) || (plain.includes('[') && plain.indexOf(']') > plain.indexOf('['));
}

/**
 * The glob in the notation of src/base/text/glob.ts: literal characters are escaped, and `?` replaces character classes, which that notation lacks.
 */
function toGlob(atoms: readonly WordAtom[]): string {
  return atoms
    .map((it) => {
      if (it.kind === 'plain')
        return it.text.replaceAll(/\[[!^]?\[[:.=][^\]]*[:.=]\][^\]]*\]/g, '?').replaceAll(/[{}]/g, '\\$&');
      return it.text.replaceAll(/[*?[\]{}\\]/g, '\\$&');
    })
    .join('');
}
