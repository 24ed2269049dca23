/** What one source declares, imports and exports. Runs in the parser child. */
import type { SgNode } from '@ast-grep/napi';
import type { CodeError, CodeExport, CodeImport, CodeNode, CodeSymbol } from '../../src/tools/source/source-code.ts';
import { findKinds, LANGUAGES, namesOf, treeOf, typeOf } from '../symbols/grammars.ts';
import type { ParsedLanguage } from '../symbols/source-languages.ts';
import { type ModuleTable, moduleTableOf, type SourceText } from './module-table.ts';

export interface Outline extends ModuleTable {
  readonly symbols: CodeSymbol[];
  readonly ast?: CodeNode[];
}

export interface OutlineOptions {
  readonly ast: boolean;
  /** The most symbols, and the most nodes of the syntax tree. */
  readonly namesMax: number;
}

export async function outlineOf(source: SourceText, { ast, namesMax }: OutlineOptions): Promise<Outline> {
  const { language, text } = source;
  const root = treeOf(language, text);
  const symbols = symbolsOf(language, root, namesMax);
  const { imports, exports, errors } = isScript(language)
    ? await moduleTableOf(source)
    : otherTableOf(language, root, symbols);
  return {
    symbols,
    imports: imports.slice(0, namesMax),
    exports: exports.slice(0, namesMax),
    errors: errors.slice(0, namesMax),
    ...(ast && { ast: nodesOf(root, namesMax) }),
  };
}

const isScript = (language: ParsedLanguage): boolean => language === 'typescript' || language === 'tsx';

/** Kinds of functions, in which variables are local. */
const FUNCTIONS = [
  ...['function_declaration', 'function_expression', 'generator_function_declaration', 'generator_function'],
  ...['arrow_function', 'method_definition', 'function_definition', 'function_item', 'closure_expression'],
  ...['method_declaration', 'func_literal', 'lambda', 'class_static_block'],
];
const IS_FUNCTION = new Set(FUNCTIONS);

function symbolsOf(language: ParsedLanguage, root: SgNode, namesMax: number): CodeSymbol[] {
  const { types } = LANGUAGES[language];
  const isLocal = isInside(findKinds(language, root, FUNCTIONS));
  const symbols: CodeSymbol[] = [];
  for (const node of findKinds(language, root, Object.keys(types))) {
    if (symbols.length >= namesMax) break;
    const type = isFunctionValue(node) ? 'function' : typeOf(node, types);
    const { start, end } = node.range();
    if (isLocal(start.index, end.index) && type === 'variable') continue;
    for (const name of namesOf(node)) {
      const { line, column } = name.range().start;
      symbols.push({ name: name.text(), type, line: line + 1, column: column + 1, endLine: end.line + 1 });
    }
  }
  return symbols;
}

function isFunctionValue(node: SgNode): boolean {
  if (node.kind() !== 'variable_declarator' && node.kind() !== 'public_field_definition') return false;
  return IS_FUNCTION.has(`${node.field('value')?.kind()}`);
}

/**
 * A test whether a range lies in one of `nodes` and is not it, for ranges asked for in the order of the text. A node's
 * `parent()` would search the whole file for it.
 */
function isInside(nodes: readonly SgNode[]): (start: number, end: number) => boolean {
  let next = 0;
  let outer: { start: number; end: number }[] = [];
  return (start, end) => {
    for (let node = nodes[next]; node && node.range().start.index <= start; node = nodes[next]) {
      outer.push({ start: node.range().start.index, end: node.range().end.index });
      next += 1;
    }
    outer = outer.filter((it) => it.end > start);
    return outer.some((it) => it.end >= end && (it.start < start || it.end > end));
  };
}

function otherTableOf(language: ParsedLanguage, root: SgNode, symbols: readonly CodeSymbol[]): ModuleTable {
  const imports = findKinds(language, root, IMPORTS).flatMap(toImports);
  return { imports, exports: exportsOf(language, root, symbols), errors: syntaxErrorsOf(root) };
}

const IMPORTS = [
  ...['import_statement', 'import_from_statement', 'future_import_statement'],
  ...['import_spec', 'use_declaration', 'extern_crate_declaration', 'mod_item'],
];

function toImports(node: SgNode): CodeImport[] {
  const line = node.range().start.line + 1;
  const of = (module: string, names: string[]): CodeImport => ({
    module,
    line,
    names,
    kind: 'static',
    typeOnly: false,
  });
  const nameOf = (it: SgNode): string =>
    it.kind() === 'aliased_import' ? (it.field('name')?.text() ?? '') : it.text();
  switch (node.kind()) {
    case 'import_statement':
      return node.fieldChildren('name').map((it) => of(nameOf(it), ['*']));
    case 'import_from_statement': {
      const names = node.fieldChildren('name').map(nameOf);
      return [of(node.field('module_name')?.text() ?? '', names.length === 0 ? ['*'] : names)];
    }
    case 'future_import_statement':
      return [of('__future__', node.fieldChildren('name').map(nameOf))];
    case 'import_spec':
      return [of((node.field('path')?.text() ?? '').slice(1, -1), ['*'])];
    case 'use_declaration':
      return usesOf(node.field('argument')?.text() ?? '').map(({ module, name }) => of(module, [name]));
    case 'extern_crate_declaration':
      return [of(node.field('name')?.text() ?? '', ['*'])];
    default:
      // `mod name;` reads a file; `mod name { … }` does not.
      return node.field('body') ? [] : [of(`self::${node.field('name')?.text() ?? ''}`, ['*'])];
  }
}

/** The single uses of a Rust `use` tree, such as `a::{b, c::{d as e}}`. */
function usesOf(tree: string): { module: string; name: string }[] {
  const found: { module: string; name: string }[] = [];
  const prefixes: string[] = [''];
  let word = '';
  const end = () => {
    const path = `${prefixes.at(-1)}${word.replace(/\s+as\s+\w+\s*$/, '').trim()}`;
    word = '';
    const at = path.lastIndexOf('::');
    if (path !== '' && !path.endsWith('::'))
      found.push({ module: at < 0 ? path : path.slice(0, at), name: at < 0 ? '*' : path.slice(at + 2) });
  };
  for (const it of tree) {
    if (it === '{') {
      prefixes.push(`${prefixes.at(-1)}${word.trim()}`);
      word = '';
    } else if (it === ',' || it === '}') {
      end();
      if (it === '}') prefixes.pop();
    } else word += it;
  }
  end();
  return found;
}

/** What others may use: in Python by `__all__` or without an underscore, in Go by a capital, in Rust by `pub`. */
function exportsOf(language: ParsedLanguage, root: SgNode, symbols: readonly CodeSymbol[]): CodeExport[] {
  const toExport = ({ name, line }: CodeSymbol): CodeExport => ({ name, line, typeOnly: false });
  const among = (nodes: readonly SgNode[]): CodeSymbol[] => {
    const tops = new Set(
      nodes
        .flatMap(declaredIn)
        .map((it) => it.range().start)
        .map((it) => `${it.line + 1}:${it.column + 1}`),
    );
    return symbols.filter((it) => tops.has(`${it.line}:${it.column}`));
  };
  const outer = among(language === 'rust' ? [] : root.children());
  if (language === 'go') return outer.filter((it) => /^\p{Lu}/u.test(it.name)).map(toExport);
  if (language === 'rust') {
    const isOpen = (it: SgNode) => it.children().some((child) => child.kind() === 'visibility_modifier');
    return among(root.children().filter(isOpen)).map(toExport);
  }
  const all = root.find({ rule: { kind: 'assignment', has: { field: 'left', regex: '^__all__$' } } });
  const named = all && new Set([...all.text().matchAll(/['"](\w+)['"]/g)].map((it) => it[1]));
  return outer.filter((it) => (named ? named.has(it.name) : !it.name.startsWith('_'))).map(toExport);
}

/** The nodes of the names of a declaration at the top of a file, whatever wraps it. */
function declaredIn(node: SgNode): SgNode[] {
  const name = node.field('name') ?? node.field('left');
  if (name) return [name];
  const inner = node.children().filter((it) => it.isNamed() && it.kind() !== 'block');
  return inner.flatMap(
    (it) => it.field('name') ?? it.field('left') ?? it.children().flatMap((child) => child.field('name') ?? []),
  );
}

const syntaxErrorsOf = (root: SgNode): CodeError[] =>
  root.findAll({ rule: { kind: 'ERROR' } }).map((it) => {
    const { line, column } = it.range().start;
    return {
      line: line + 1,
      column: column + 1,
      message: `Syntax error near ${JSON.stringify(it.text().slice(0, 40))}`,
    };
  });

/**
 * The named nodes, outer ones first: without recursion, since a text may nest as deep as it likes, and one after
 * another, since a node may have more children than memory has room for.
 */
function nodesOf(root: SgNode, nodesMax: number): CodeNode[] {
  const nodes: CodeNode[] = [];
  const outer: { readonly node: SgNode; readonly at: number }[] = [];
  for (let node: SgNode | null = root; node && nodes.length < nodesMax; ) {
    const inner = namedFrom(node.child(0));
    const { start, end } = node.range();
    const text = inner ? undefined : { text: node.text().slice(0, NODE_CHARS) };
    const parent = outer.at(-1)?.at;
    const place = { depth: outer.length, parent };
    nodes.push({ kind: `${node.kind()}`, ...place, line: start.line + 1, endLine: end.line + 1, ...text });
    if (inner) {
      outer.push({ node, at: nodes.length - 1 });
      node = inner;
      continue;
    }
    // The root has nothing beside it.
    let done: SgNode | undefined = node;
    node = null;
    while (done && outer.length > 0 && !node) {
      node = namedFrom(done.next());
      if (!node) done = outer.pop()?.node;
    }
  }
  return nodes;
}

/** The first named node among this one and those after it. */
function namedFrom(node: SgNode | null): SgNode | null {
  let at = node;
  while (at && !at.isNamed()) at = at.next();
  return at;
}

const NODE_CHARS = 80;
