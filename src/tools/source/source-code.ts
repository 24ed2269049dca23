/** Questions about source code that parsers answer; workers/code/workspace-code.ts answers them. */
import type { Analysis, AnalysisQuery } from './analysis.ts';
import type { SymbolType } from './symbols.ts';

/** The languages that parsers read. */
export const CODE_LANGUAGES = ['typescript', 'tsx', 'javascript', 'python', 'go', 'rust'] as const;
export type CodeLanguage = (typeof CODE_LANGUAGES)[number];

/** Lines and columns count from 1; columns in UTF-16 units, as editors and language servers count them. */
export interface CodeSymbol {
  name: string;
  type: SymbolType;
  line: number;
  column: number;
  /** The last line of the declaration. */
  endLine: number;
}

export interface CodeImport {
  module: string;
  line: number;
  /** Imported names, as the module calls them; `*` for all, `default` for a default export. */
  names: string[];
  kind: 'static' | 'dynamic' | 'reexport' | 'require';
  /** Whether only types are imported, so that nothing is left of it at run time. */
  typeOnly: boolean;
}

export interface CodeExport {
  /** `*` for all of another module. */
  name: string;
  line: number;
  typeOnly: boolean;
  /** The module whose export is passed on. */
  from?: string;
}

export interface CodeError {
  line: number;
  column: number;
  message: string;
}

/** A named node of a syntax tree, in the order of the text. */
export interface CodeNode {
  kind: string;
  /** 0 for the whole file. */
  depth: number;
  /** Index of the node that holds it; absent for the root. */
  parent?: number;
  line: number;
  endLine: number;
  /** The text of a node that has no named node in it. */
  text?: string;
}

export interface ParsedCode {
  language: CodeLanguage;
  symbols: CodeSymbol[];
  imports: CodeImport[];
  exports: CodeExport[];
  errors: CodeError[];
  /** Present if it was asked for. */
  ast?: CodeNode[];
  /** Whether some lists are cut. */
  truncated: boolean;
}

export interface ParseQuery {
  /** A file of the workspace; or `code`. */
  readonly path?: string | undefined;
  readonly code?: string | undefined;
  readonly language?: CodeLanguage | undefined;
  /** The name of the file that holds `code`; only its ending is used. */
  readonly fileName?: string | undefined;
  readonly ast: boolean;
}

export const GRAPH_VIEWS = ['summary', 'cycles', 'imports', 'importers', 'unused'] as const;

export interface GraphQuery {
  /** A directory. */
  readonly path: string;
  readonly show: (typeof GRAPH_VIEWS)[number];
  /** For `imports` and `importers`: where to begin. */
  readonly file?: string | undefined;
  /** Steps from `file`. */
  readonly depth: number;
  /** Whether imports of types alone count for circles, too. */
  readonly types: boolean;
}

export interface GraphEdge {
  from: string;
  to: string;
  /** The line of the first import. */
  line: number;
  typeOnly: boolean;
}

export interface ImportGraphAnswer {
  nodes: string[];
  edges: GraphEdge[];
  /** Files that import each other in a circle, in its order; each file of a circle is in one of these. */
  cycles: string[][];
  unresolved: { file: string; line: number; module: string; reason: string }[];
  /** Modules that are not files of this tree. */
  external: string[];
  unusedFiles: { file: string; reason: string }[];
  unusedExports: { file: string; line: number; name: string; reason: string }[];
  totals: { files: number; edges: number; cycles: number; unresolved: number; external: number };
  truncated: boolean;
  /** Files that no parser could read. */
  skipped: string[];
}

/** Answers by syntax alone: nothing of the workspace runs, and only files that the policy shows are read. */
export interface SourceCode {
  /** Throws UNSUPPORTED for a language without a parser, CPU_LIMIT for a text that no parser comes to an end of. */
  parse(query: ParseQuery): Promise<ParsedCode>;
  /** Throws INPUT_INVALID for a file that is not in the graph, CPU_LIMIT if parsers crash on several files. */
  graph(query: GraphQuery): Promise<ImportGraphAnswer>;
  /** Throws UNSUPPORTED for a file without a parser, CPU_LIMIT if parsers crash on several files. */
  analyze(query: AnalysisQuery): Promise<Analysis>;
}
