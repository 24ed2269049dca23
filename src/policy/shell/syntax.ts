/**
 * Walks the syntax tree of a command line and reports everything that has an effect to a listener, wherever it is: in a pipe, a subshell, a
 * function's body, a here-document, the default of a variable. Pure.
 */
import {
  type ArithmeticExpression,
  type Assignment,
  type Command,
  forEachChild,
  type HereDoc,
  type HereString,
  type ParameterExpansionPart,
  type ParsedScript,
  parse,
  type Redirect,
  type Redirection,
  type SyntaxNode,
  type TestBinaryExpression,
  type TestUnaryExpression,
  type Word,
} from 'unbash';
import { defaultLimits as limits } from '../../base/limits.ts';
import { withoutBodies } from './here-documents.ts';

/** Receives what the walk finds; the nodes are unbash's. */
export interface Listener {
  /** `text` is the source of the command. */
  command(node: Command, text: string, nesting: number): void;
  redirect(node: Redirect): void;
  /** A word outside of any command that may name a path: a value, a loop's list, an operand of a test. */
  word(node: Word): void;
  /** The text sets a variable. */
  variable(name: string): void;
  function(name: string): void;
  /** The text contains something that may do more than can be read. */
  unknown(why: string): void;
}

/** A bound was exceeded and the rest is not read; the message says which. */
export class SyntaxBoundError extends Error {}

/** Marks that may each make the parser read all following text again: braces, brackets, here-documents. */
const OPENERS = /[{`[]|<<|[?*+@!<>$=(]\(/g;

/** Only numbers and operators: arithmetic on a variable runs its value if that is a subscript with `$(…)`. */
const PLAIN_ARITHMETIC = /^[\d\s+\-*/%()<>=!&|^~?:,#.]*$/;

export class Syntax {
  readonly #listener: Listener;
  #steps = 0;

  constructor(listener: Listener) {
    this.#listener = listener;
  }

  /**
   * Reads a text; `nesting` is the number of texts around it. Throws SyntaxBoundError, and whatever the parser throws for texts that it can't read.
   */
  read(text: string, nesting: number): void {
    if (text.length > limits.commandCharsMax)
      throw new SyntaxBoundError(`it has more than ${limits.commandCharsMax} characters`);
    if (text.includes('\0')) throw new SyntaxBoundError('it has a NUL byte');
    // unbash 6.0.4 takes this `$` literally; bash joins the lines first.
    if (text.includes('$\\\n')) this.#listener.unknown('a line ends inside an expansion');
    const short = costOf(text) > limits.commandStepsMax - this.#steps ? withoutBodies(text) : undefined;
    const read = short?.text ?? text;
    this.spend(costOf(read));
    const bodies = new Set(short?.offsets);
    this.#visit(parse(read), { source: read, nesting, depth: 0, bodies, quoted: false });
    if (bodies.size > 0) this.#listener.unknown('what looks like a here-document is none');
  }

  /** Charges the cost of a text before it is read. Throws SyntaxBoundError. */
  spend(steps: number): void {
    this.#steps += steps;
    if (this.#steps > limits.commandStepsMax) throw new SyntaxBoundError('it is too tangled to be read');
  }

  #visit(node: SyntaxNode, at: ParsePosition): void {
    if (at.depth > limits.commandDepthMax) throw new SyntaxBoundError('it is nested too deeply to be read');
    const inner = this.#enter(node, at);
    forEachChild(node, (child) => this.#visit(child, inner));
  }

  /** Reports a node and returns the position of its children. */
  #enter(node: SyntaxNode, at: ParsePosition): ParsePosition {
    const listener = this.#listener;
    switch (node.type) {
      case 'Script':
        return this.#enterScript(node, at);
      case 'Command':
        listener.command(node, at.source.slice(node.pos, node.end), at.nesting);
        break;
      case 'Redirect':
        listener.redirect(node);
        this.#descriptor(node, at);
        break;
      case 'HereString':
        this.#descriptor(node, at);
        break;
      case 'HereDoc':
        this.#descriptor(node, at);
        this.spend(node.body.text.length);
        if (node.delimiter?.quoted && node.body.text === '') at.bodies.delete(node.body.pos);
        break;
      case 'HereDocBody':
      case 'DoubleQuoted':
      case 'LocaleString':
        return { ...at, depth: at.depth + 1, quoted: true };
      case 'SingleQuoted':
      case 'AnsiCQuoted':
        // Inside a quoted expansion bash takes these quotes literally and expands what they hold: `"${x-$'$(rm y)'}"`.
        if (at.quoted && /[$`]/.test(node.text.slice(1)))
          listener.unknown('quotes in a quoted expansion may quote nothing');
        break;
      case 'Word':
        this.spend(node.text.length);
        break;
      case 'Assignment':
        this.#assignment(node);
        break;
      case 'Function':
        listener.function(node.name.value);
        break;
      case 'For':
      case 'Select':
        listener.variable(node.name.value);
        for (const it of node.wordlist ?? []) listener.word(it);
        break;
      case 'Coproc':
        listener.variable(node.name?.value ?? 'COPROC');
        break;
      case 'CommandExpansion':
      case 'ProcessSubstitution':
      case 'ArithmeticCommandExpansion':
        this.spend(costOf(node.text));
        // unbash 6.0.4 loses the last character of a `${ command` without its brace, and reports no error.
        if (node.script === undefined || /^\$\{.*[^}]$/s.test(node.text))
          listener.unknown('a substitution can not be read');
        break;
      default:
        this.#enterExpression(node, at);
    }
    return { ...at, depth: at.depth + 1 };
  }

  #enterScript(node: ParsedScript, at: ParsePosition): ParsePosition {
    const [error] = node.errors ?? [];
    if (error) this.#listener.unknown(`it can not be read: ${error.message}`);
    const own = node.source === undefined ? at : { ...at, source: node.source, bodies: new Set<number>() };
    return { ...own, depth: at.depth + 1, quoted: false };
  }

  #enterExpression(node: SyntaxNode, { source }: ParsePosition): void {
    switch (node.type) {
      case 'ParameterExpansion':
        this.#parameter(node);
        break;
      case 'ArithmeticExpansion':
        this.spend(node.text.length);
        this.#arithmetic(node.text.startsWith('$[') ? node.text.slice(2, -1) : node.text.slice(3, -2));
        break;
      case 'ArithmeticCommand':
        this.#arithmetic(node.body);
        break;
      case 'ArithmeticFor':
        for (const it of [node.initialize, node.test, node.update]) if (it) this.#arithmetic(textOf(it, source));
        break;
      case 'TestUnary':
      case 'TestBinary':
        this.#test(node);
        break;
      default:
    }
  }

  #assignment({ name, value, index }: Assignment): void {
    this.#listener.variable(name);
    if (index) this.#arithmetic(index.text);
    if (value.type === 'Word') return this.#listener.word(value);
    for (const it of value.elements) {
      this.#listener.word(it);
      // In `y=([x]=1)` everything before `=` is a subscript, which bash evaluates.
      if (it.text.startsWith('[') && !/^\[\d+\]/.test(it.text))
        this.#listener.unknown('a subscript runs what a variable holds');
    }
  }

  /** Reports a variable descriptor: `{x}<file` sets x, and `{x[i]}<file` evaluates i. */
  #descriptor({ descriptor, pos }: Redirection, { source }: ParsePosition): void {
    // unbash 6.0.4 reads some descriptors as a word: `{x["i"]}<file`.
    if (descriptor === undefined && source[pos - 1] === '}') this.#listener.unknown('a word may be a descriptor');
    if (descriptor?.type !== 'FileDescriptorVariable') return;
    const [variable = ''] = descriptor.name.split('[');
    this.#listener.variable(variable);
    this.#arithmetic(descriptor.name.slice(variable.length + 1, -1));
  }

  #parameter({ parameter, prefix, index, operation }: ParameterExpansionPart): void {
    const listener = this.#listener;
    if (prefix === '!' && operation?.type !== 'Names' && !isWhole(index))
      listener.unknown('an indirect expansion runs what a variable holds');
    if (index && !isWhole(index)) this.#arithmetic(index.text);
    if (operation?.type === 'Default' && operation.operator.endsWith('=')) listener.variable(parameter);
    if (operation?.type === 'Transform' && !/^[UuLQEAKak]$/.test(operation.operand.text))
      listener.unknown('an expansion runs what a variable holds');
    if (operation?.type === 'Unknown') listener.unknown('an expansion can not be read');
    if (operation?.type !== 'Slice') return;
    for (const it of [operation.offset, operation.length]) if (it) this.#arithmetic(it.text);
  }

  #test(node: TestUnaryExpression | TestBinaryExpression): void {
    const listener = this.#listener;
    if (node.type === 'TestUnary') {
      listener.word(node.operand);
      if (/^-[vR]$/.test(node.operator) && !/^\w+$/.test(node.operand.text))
        listener.unknown('-v runs what a subscript holds');
      return;
    }
    listener.word(node.left);
    listener.word(node.right);
    if (!/^-(eq|ne|lt|le|gt|ge)$/.test(node.operator)) return;
    this.#arithmetic(node.left.text);
    this.#arithmetic(node.right.text);
  }

  #arithmetic(text: string): void {
    if (!PLAIN_ARITHMETIC.test(text)) this.#listener.unknown('arithmetic on variables runs what they hold');
  }
}

/** Parsing cost of a text, in steps. */
const costOf = (text: string): number => text.length * (1 + (text.match(OPENERS)?.length ?? 0));

interface ParsePosition {
  /** The text that node positions refer to. */
  readonly source: string;
  readonly nesting: number;
  readonly depth: number;
  /** Offsets in `source` at which an empty quoted here-document must be found; each is removed when it is found. */
  readonly bodies: Set<number>;
  /** Whether the node is in double quotes, or in a here-document that is expanded. */
  readonly quoted: boolean;
}

const isWhole = (index: Word | undefined): boolean => index?.text === '@' || index?.text === '*';
const textOf = (node: ArithmeticExpression, source: string): string => source.slice(node.pos, node.end);

/** The text that a command reads as its input, if the command line holds it; undefined if it contains an expansion. */
export function inputOf(node: HereDoc | HereString): Word | string | undefined {
  if (node.type === 'HereString') return node.target;
  const { parts, text } = node.body;
  if (node.delimiter?.quoted) return text;
  return parts?.some((it) => it.type !== 'Literal') || text.includes('\\') ? undefined : text;
}
