/** What a module of TypeScript or JavaScript imports and exports. Runs in the parser child. */
import type { SgNode } from '@ast-grep/napi';
import { type ParseResult, parse, type StaticExportEntry } from 'oxc-parser';
import { TextLines } from '../../src/base/text/text-lines.ts';
import type { CodeError, CodeExport, CodeImport } from '../../src/tools/source/source-code.ts';
import { findKinds, treeOf } from '../symbols/grammars.ts';
import type { ParsedLanguage } from '../symbols/source-languages.ts';

export interface ModuleTable {
  readonly imports: CodeImport[];
  readonly exports: CodeExport[];
  readonly errors: CodeError[];
}

export interface SourceText {
  /** A name whose ending tells whether it is a module, and whether it holds JSX. */
  readonly path: string;
  readonly language: ParsedLanguage;
  readonly text: string;
}

/** Parses in another thread, so that files of one question are parsed at the same time. */
export async function moduleTableOf({ path, language, text }: SourceText): Promise<ModuleTable> {
  // JSX is common in .js files, too.
  const result = await parse(path, text, /\.[mc]?js$/.test(path) ? { lang: 'jsx' } : {});
  const lines = new TextLines(text);
  const { imports, exports } = tableOf(result, text, lines);
  // The tables know no CommonJS; a second parser finds it in the few files that may have some.
  if (/\brequire\s*\(\s*['"]|\bexports(\.[\w$]+)?\s*=/.test(text)) {
    const root = treeOf(language, text);
    imports.push(...requiresOf(language, root));
    exports.push(...commonJsExportsOf(language, root));
  }
  imports.sort((a, b) => a.line - b.line);
  return { imports, exports, errors: errorsOf(result, lines) };
}

function tableOf({ module }: ParseResult, text: string, lines: TextLines): Omit<ModuleTable, 'errors'> {
  const imports: CodeImport[] = module.staticImports.map(({ start, moduleRequest, entries }) => ({
    module: moduleRequest.value,
    line: lines.at(start).line,
    names: entries.map(({ importName: { kind, name } }) =>
      kind === 'Name' ? (name ?? '') : kind === 'Default' ? 'default' : '*',
    ),
    kind: 'static',
    typeOnly:
      entries.length > 0 ? entries.every((it) => it.isType) : /^import\s+type\b/.test(text.slice(start, start + 99)),
  }));
  for (const { start, moduleRequest } of module.dynamicImports) {
    const request = text.slice(moduleRequest.start, moduleRequest.end);
    const specifier = /^(['"`])([^'"`$\\]+)\1$/.exec(request)?.[2];
    if (specifier !== undefined)
      imports.push({ module: specifier, line: lines.at(start).line, names: ['*'], kind: 'dynamic', typeOnly: false });
  }
  const exports: CodeExport[] = [];
  for (const { start, entries } of module.staticExports) {
    const { line } = lines.at(start);
    for (const it of entries) exports.push(toExport(it, line));
    imports.push(...reexportsOf(entries, line));
  }
  return { imports, exports };
}

function toExport({ exportName, isType, moduleRequest }: StaticExportEntry, line: number): CodeExport {
  const name = exportName.kind === 'Default' ? 'default' : (exportName.name ?? '*');
  return { name, line, typeOnly: isType, from: moduleRequest?.value };
}

/** The import that an `export … from` is, too. */
function reexportsOf(entries: readonly StaticExportEntry[], line: number): CodeImport[] {
  const module = entries.find((it) => it.moduleRequest)?.moduleRequest?.value;
  if (module === undefined) return [];
  const names = entries.map(({ importName: { kind, name } }) => (kind === 'Name' ? (name ?? '') : '*'));
  return [{ module, line, names, kind: 'reexport', typeOnly: entries.every((it) => it.isType) }];
}

function requiresOf(language: ParsedLanguage, root: SgNode): CodeImport[] {
  const calls = findKinds(language, root, ['call_expression'])
    .filter((it) => it.field('function')?.text() === 'require')
    .map((it) => ({
      node: it,
      argument: it
        .field('arguments')
        ?.children()
        .find((child) => child.isNamed()),
    }));
  const clauses = findKinds(language, root, ['import_require_clause']).map((it) => ({
    node: it,
    argument: it.field('source') ?? undefined,
  }));
  return [...calls, ...clauses].flatMap(({ node, argument }) => {
    const module = /^(['"])([^'"\\]+)\1$/.exec(argument?.text() ?? '')?.[2];
    if (module === undefined) return [];
    return [{ module, line: node.range().start.line + 1, names: ['*'], kind: 'require' as const, typeOnly: false }];
  });
}

/** `exports.name = …`, `module.exports.name = …` and `module.exports = …`, the last as `default`. */
function commonJsExportsOf(language: ParsedLanguage, root: SgNode): CodeExport[] {
  return findKinds(language, root, ['assignment_expression']).flatMap((it) => {
    const left = it.field('left')?.text() ?? '';
    const name = left === 'module.exports' ? 'default' : /^(?:module\.)?exports\.([\w$]+)$/.exec(left)?.[1];
    return name === undefined ? [] : [{ name, line: it.range().start.line + 1, typeOnly: false }];
  });
}

const errorsOf = ({ errors }: ParseResult, lines: TextLines): CodeError[] =>
  errors.map(({ message, labels }) => ({ ...lines.at(labels[0]?.start ?? 0), message }));
