/**
 * The child process that parses sources: text in, names and positions out. Parsers crash on some inputs and hang on
 * others, so nothing else may run here. It opens no file except its own code, and package.json
 * where imported modules are looked for.
 */
import type { SgNode } from '@ast-grep/napi';
import { createMessageConnection, StreamMessageReader, StreamMessageWriter } from 'vscode-jsonrpc/node';
import type { SymbolType } from '../src/tools/source/symbols.ts';
import type { Candidates } from './code/graph/resolve.ts';
import type { Inspections, InspectRequest } from './code/inspections.ts';
import { type RewriteQuestion, rewriteIn } from './code/rewriting.ts';
import { establishPerimeter } from './perimeter.ts';
import { findKinds, LANGUAGES, namesOf, registerGrammars, treeOf, typeOf } from './symbols/grammars.ts';
import type { ParsedLanguage } from './symbols/source-languages.ts';

/** Positions count from 0; characters in UTF-16 units. */
interface ParsedName {
  readonly name: string;
  readonly line: number;
  readonly character: number;
}
export interface ParsedSymbol extends ParsedName {
  readonly type: SymbolType;
}
export interface ParseRequest {
  readonly language: ParsedLanguage;
  readonly text: string;
  /** Limits the result to symbols and identifiers of this name; all symbols if absent. */
  readonly name?: string | undefined;
  readonly resultsMax: number;
}
export interface ParsedSource {
  readonly symbols: ParsedSymbol[];
  /** Identifiers called `name`; empty if there is no name. */
  readonly uses: ParsedName[];
}

establishPerimeter(2);
registerGrammars();

const connection = createMessageConnection(
  new StreamMessageReader(process.stdin),
  new StreamMessageWriter(process.stdout),
);
connection.onRequest('up', () => true);
connection.onRequest('parse', answer);
connection.onRequest('inspect', inspect);
connection.onRequest('rewrite', (it: RewriteQuestion): object => rewriteIn(it, (text) => treeOf(it.language, text)));
connection.onRequest('resolve', resolve);
connection.listen();

function answer({ language, text, name, resultsMax }: ParseRequest): ParsedSource {
  const { types, identifiers } = LANGUAGES[language];
  const root = treeOf(language, text);
  const isMeant = (node: SgNode) => name === undefined || node.text() === name;
  const symbols: ParsedSymbol[] = [];
  for (const node of findKinds(language, root, Object.keys(types))) {
    if (symbols.length >= resultsMax) break;
    for (const it of namesOf(node).filter(isMeant)) symbols.push({ ...toName(it), type: typeOf(node, types) });
  }
  const uses: ParsedName[] = [];
  if (name !== undefined)
    for (const node of findKinds(language, root, identifiers)) {
      if (uses.length >= resultsMax) break;
      if (isMeant(node)) uses.push(toName(node));
    }
  return { symbols, uses };
}

/** Answers about whole files; what they need is loaded on first use. */
async function inspect(request: InspectRequest): Promise<Inspections[keyof Inspections][]> {
  const { inspectAll } = await import('./code/inspect.ts');
  return inspectAll(request);
}

async function resolve({ modules }: { readonly modules: readonly Candidates[] }): Promise<(string | null)[]> {
  const { resolveAll } = await import('./code/graph/resolve.ts');
  return resolveAll(modules);
}

function toName(node: SgNode): ParsedName {
  const { line, column } = node.range().start;
  return { name: node.text(), line, character: column };
}
