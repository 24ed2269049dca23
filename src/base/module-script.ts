/**
 * Converts a module to a script, since compartments run scripts only. Every character keeps its line and, except in the first line, its
 * column. Throws for syntax without an equivalent.
 */
import { js, type SgNode } from '@ast-grep/napi';

interface Import {
  readonly specifier: string;
  /** Names imported from the module. */
  readonly names: readonly string[];
}

interface Script {
  readonly script: string;
  /** One for each parameter of the function. */
  readonly imports: readonly Import[];
}

/** A module as a script that evaluates to an async function from its imports to its exports. Throws SyntaxError. */
export function toScript(module: string, path: string): Script {
  const text = module.replace(/^#!/, '//'); // A shebang line.
  const imports: Import[] = [];
  const exported: [name: string, local: string][] = [];
  const importOf = (node: SgNode, names: readonly string[]): string =>
    `$${imports.push({ specifier: textOf(node.field('source')).slice(1, -1), names }) - 1}`;
  const edits = js
    .parse(text)
    .root()
    .children()
    .flatMap((node): SourceEdit[] => {
      if (node.kind() === 'import_statement') return [replaced(node, importStatement(node, importOf))];
      if (node.kind() === 'export_statement') return exportStatement(node, { exported, importOf, path });
      return [];
    });
  let body = '';
  let at = 0;
  for (const { from, to, by } of edits) {
    body += text.slice(at, from) + by;
    at = to;
  }
  body += text.slice(at);
  const parameters = imports.map((_, index) => `$${index}`).join(', ');
  const members = exported.map(([name, local]) => `${JSON.stringify(name)}: ${local}`).join(', ');
  const script = `(async (${parameters}) => {'use strict'; ${body}\nreturn { __proto__: null, ${members} };})\n//# sourceURL=${path}`;
  return { script, imports };
}

interface SourceEdit {
  readonly from: number;
  readonly to: number;
  readonly by: string;
}

/** An edit that keeps the number of lines. */
function replaced(node: SgNode, by: string): SourceEdit {
  const { start, end } = node.range();
  return { from: start.index, to: end.index, by: by + '\n'.repeat(end.line - start.line) };
}

type ImportOf = (node: SgNode, names: readonly string[]) => string;

function importStatement(node: SgNode, importOf: ImportOf): string {
  const clause = node.children().find((it) => it.kind() === 'import_clause');
  const names: string[] = [];
  const bound: string[] = [];
  let defaultName: string | undefined;
  for (const part of clause?.children() ?? []) {
    if (part.kind() === 'identifier') {
      names.push('default');
      bound.push(`default: ${part.text()}`);
    } else if (part.kind() === 'namespace_import') defaultName = textOf(part.children().at(-1));
    else if (part.kind() === 'named_imports')
      for (const [name, local] of specifiersOf(part)) {
        names.push(name);
        bound.push(`${JSON.stringify(name)}: ${local}`);
      }
  }
  const from = importOf(node, names);
  const declared = [
    ...(bound.length > 0 ? [`{ ${bound.join(', ')} } = ${from}`] : []),
    ...(defaultName ? [`${defaultName} = ${from}`] : []),
  ];
  return declared.length === 0 ? ';' : `const ${declared.join(', ')};`;
}

/** The specifiers `a` and `a as b` in braces. */
const specifiersOf = (list: SgNode): [name: string, other: string][] =>
  list
    .children()
    .filter((it) => it.isNamed() && it.kind() !== 'comment')
    .map((it) => [nameOf(it.field('name')), nameOf(it.field('alias') ?? it.field('name'))]);

/** The text of a name, which may be written as a string. */
const nameOf = (node: SgNode | null): string => (node?.kind() === 'string' ? node.text().slice(1, -1) : textOf(node));

interface ExportContext {
  readonly exported: [name: string, local: string][];
  readonly importOf: ImportOf;
  readonly path: string;
}

const DEFAULT = '$default';

function exportStatement(node: SgNode, { exported, importOf, path }: ExportContext): SourceEdit[] {
  const refuse = (what: string) =>
    new SyntaxError(`${what} is not supported in a compartment (${path}:${node.range().start.line + 1})`);
  const children = node.children();
  const clause = children.find((it) => it.kind() === 'export_clause');
  if (clause) {
    const source = node.field('source');
    const specifiers = specifiersOf(clause);
    const from = source
      ? importOf(
          node,
          specifiers.map(([name]) => name),
        )
      : undefined;
    for (const [local, name] of specifiers)
      exported.push([name, from === undefined ? local : `${from}[${JSON.stringify(local)}]`]);
    return [replaced(node, ';')];
  }
  const declaration = node.field('declaration');
  const isDefault = children.some((it) => it.kind() === 'default');
  const [keyword] = children;
  if (!keyword || (!declaration && !isDefault)) throw refuse('`export *`');
  const what = declaration ?? declaredFirst(node.field('value') as SgNode);
  const start = node.range().start.index;
  const end = what.range().start.index;
  const lines = what.range().start.line - node.range().start.line;
  // A comment over several lines may separate the two.
  const blank = (by = ''): SourceEdit => ({
    from: start,
    to: end,
    by: lines === 0 ? by.padEnd(end - start) : `${by}${'\n'.repeat(lines)}${' '.repeat(what.range().start.column)}`,
  });
  if (isDefault) {
    const name = DECLARED.test(`${what.kind()}`) ? what.field('name')?.text() : undefined;
    exported.push(['default', name ?? DEFAULT]);
    if (name !== undefined) return [blank()];
    // Declarations without a name end where they end; the value of a `const` needs a semicolon.
    const last = what.range().end.index;
    return [blank(`const ${DEFAULT} =`), { from: last, to: last, by: ';' }];
  }
  for (const name of declaredBy(what)) {
    if (name === undefined) throw refuse('an exported pattern');
    exported.push([name, name]);
  }
  return [blank()];
}

const DECLARED = /^(function|generator_function|class)(_expression|_declaration)?$/;

/**
 * The declaration or expression of a default export. A function or class at its beginning is all of it, although the parser may read
 * further.
 */
function declaredFirst(value: SgNode): SgNode {
  const start = value.range().start.index;
  for (let at: SgNode | null = value; at?.range().start.index === start; at = at.child(0))
    if (DECLARED.test(`${at.kind()}`) && at.isNamed()) return at;
  return value;
}

/** The declared names; undefined for a pattern. */
function declaredBy(declaration: SgNode): (string | undefined)[] {
  const declarators = declaration.children().filter((it) => it.kind() === 'variable_declarator');
  const named = declarators.length > 0 ? declarators : [declaration];
  return named.map((it) => {
    const name = it.field('name');
    return `${name?.kind()}`.endsWith('identifier') ? name?.text() : undefined;
  });
}

const textOf = (node: SgNode | null | undefined): string => node?.text() ?? '';
