/** Queries about the symbols of a workspace; workers/symbols/symbols.ts answers them. */

/**
 * Kinds of symbols that callers filter by: methods count as functions, structs as classes, traits as interfaces,
 * enums as types, fields and constants as variables.
 */
export const SYMBOL_TYPES = ['function', 'class', 'interface', 'type', 'variable', 'module'] as const;
export type SymbolType = (typeof SYMBOL_TYPES)[number];

/** `semantic`: resolved by the language's rules; `syntactic`: matched by name in the syntax tree; `mixed`: some of both. */
export type Precision = 'semantic' | 'syntactic' | 'mixed';

export interface FoundSymbol {
  name: string;
  type: SymbolType;
  /** Relative to the workspace root. */
  file: string;
  line: number;
  /** The line, without its indentation; a long one is cut. */
  preview: string;
}

export interface FoundReference {
  file: string;
  line: number;
  /** Counted from 1, in UTF-16 units. */
  column: number;
  /** The line, without its indentation; a long one is cut around the name. */
  context: string;
}

/** Part of every answer. */
export interface SymbolResult {
  precision: Precision;
  /** Whether there are more results, or some files could not be searched. */
  truncated: boolean;
  /** Files that were not searched: too large, or more than a parser takes. */
  skipped: string[];
  /** Why sources were parsed although there is a language server for them. */
  warning?: string | undefined;
}

export interface SymbolQuery {
  readonly query: string;
  readonly type?: SymbolType | undefined;
  readonly maxResults: number;
}

export interface ReferenceQuery {
  readonly symbol: string;
  /** A file that names the symbol; relative to the workspace root. */
  readonly file?: string | undefined;
  readonly line?: number | undefined;
  readonly maxResults: number;
}

/** Finds symbols of TypeScript, JavaScript, Python, Rust and Go. Sources that a language server can't take are parsed instead. */
export interface Symbols {
  find(query: SymbolQuery): Promise<SymbolResult & { symbols: FoundSymbol[]; total: number }>;
  /** Throws NOT_FOUND, with similar names, if no symbol has that name. */
  references(
    query: ReferenceQuery,
  ): Promise<SymbolResult & { references: FoundReference[]; definitions: FoundSymbol[]; total: number }>;
}
