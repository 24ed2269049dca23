/**
 * A module as a script, for compartments, which know scripts only: each character stays at its line and, but for the first
 * line, its column. What has no such form is refused.
 */
import { js, type SgNode } from '@ast-grep/napi';

interface Import {
  readonly specifier: string;
  /** Of its exports. */
  readonly names: readonly string[];
}

interface Script {
  readonly script: string;
  /** One for each parameter of the function. */
  readonly imports: readonly Import[];
}

/** A module as a script whose value is an async function from what it imports to what it exports. Throws SyntaxError. */
export function toScript(text: string, path: string): Script {
  const imports: Import[] = [];
  const exported: [name: string, local: string][] = [];
  const importOf = (node: SgNode, names: readonly string[]): string =>
    `$${imports.push({ specifier: textOf(node.field('source')).slice(1, -1), names }) - 1}`;
  const edits = js
    .parse(text)
    .root()
    .children()
    .flatMap((node): Edit[] => {
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

interface Edit {
  readonly from: number;
  readonly to: number;
  readonly by: string;
}

/** With as many lines as before. */
function replaced(node: SgNode, by: string): Edit {
  const { start, end } = node.range();
  return { from: start.index, to: end.index, by: by + '\n'.repeat(end.line - start.line) };
}

type ImportOf = (node: SgNode, names: readonly string[]) => string;

function importStatement(node: SgNode, importOf: ImportOf): string {
  const clause = node.children().find((it) => it.kind() === 'import_clause');
  const names: string[] = [];
  const bound: string[] = [];
  let whole: string | undefined;
  for (const part of clause?.children() ?? []) {
    if (part.kind() === 'identifier') {
      names.push('default');
      bound.push(`default: ${part.text()}`);
    } else if (part.kind() === 'namespace_import') whole = textOf(part.children().at(-1));
    else if (part.kind() === 'named_imports')
      for (const [name, local] of specifiersOf(part)) {
        names.push(name);
        bound.push(`${name}: ${local}`);
      }
  }
  const from = importOf(node, names);
  const declared = [
    ...(bound.length > 0 ? [`{ ${bound.join(', ')} } = ${from}`] : []),
    ...(whole ? [`${whole} = ${from}`] : []),
  ];
  return declared.length === 0 ? ';' : `const ${declared.join(', ')};`;
}

/** `a` and `a as b` in braces. */
const specifiersOf = (list: SgNode): [name: string, other: string][] =>
  list
    .children()
    .filter((it) => it.isNamed() && it.kind() !== 'comment')
    .map((it) => [textOf(it.field('name')), textOf(it.field('alias') ?? it.field('name'))]);

interface Exporting {
  readonly exported: [name: string, local: string][];
  readonly importOf: ImportOf;
  readonly path: string;
}

const DEFAULT = '$default';

function exportStatement(node: SgNode, { exported, importOf, path }: Exporting): Edit[] {
  const refuse = (what: string) =>
    new SyntaxError(`${what} has no form in a compartment (${path}:${node.range().start.line + 1})`);
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
    for (const [local, name] of specifiers) exported.push([name, from === undefined ? local : `${from}.${local}`]);
    return [replaced(node, ';')];
  }
  const declaration = node.field('declaration');
  const isDefault = children.some((it) => it.kind() === 'default');
  const [keyword] = children;
  if (!keyword || (!declaration && !isDefault)) throw refuse('`export *`');
  const what = declaration ?? (node.field('value') as SgNode);
  const start = node.range().start.index;
  const end = what.range().start.index;
  const blank = (by = ''): Edit => ({ from: start, to: end, by: by.padEnd(end - start) });
  if (isDefault) {
    const name = declaration?.field('name')?.text();
    exported.push(['default', name ?? DEFAULT]);
    return [blank(name === undefined ? `const ${DEFAULT} =` : '')];
  }
  for (const name of declaredBy(what)) {
    if (name === undefined) throw refuse('an exported pattern');
    exported.push([name, name]);
  }
  return [blank()];
}

/** Names; undefined for a pattern. */
function declaredBy(declaration: SgNode): (string | undefined)[] {
  const declarators = declaration.children().filter((it) => it.kind() === 'variable_declarator');
  const named = declarators.length > 0 ? declarators : [declaration];
  return named.map((it) => {
    const name = it.field('name');
    return `${name?.kind()}`.endsWith('identifier') ? name?.text() : undefined;
  });
}

const textOf = (node: SgNode | null | undefined): string => node?.text() ?? '';
