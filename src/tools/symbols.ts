/** What tools may ask about the symbols of a workspace; workers/symbols.ts answers. */

/** What a symbol is, as callers filter: methods are functions, structs classes, traits interfaces, enums types, fields and constants variables. */
export const SYMBOL_TYPES = ['function', 'class', 'interface', 'type', 'variable', 'module'] as const;
export type SymbolType = (typeof SYMBOL_TYPES)[number];

/** By the language's own rules (which `x` is meant), by its syntax alone (what is called `x`), or some of both. */
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
  /** From 1, in characters. */
  column: number;
  /** The line, without its indentation; a long one is cut around the name. */
  context: string;
}

/** What goes with every answer. */
export interface Found {
  precision: Precision;
  /** Whether there were more, or not all files could be looked into. */
  truncated: boolean;
  /** Files that no answer could be had of: too large, or more than a parser takes. */
  skipped: string[];
  /** Why sources were parsed that a language server is there for. */
  warning?: string;
}

export interface SymbolQuery {
  readonly query: string;
  readonly type?: SymbolType | undefined;
  readonly maxResults: number;
}

export interface ReferenceQuery {
  readonly symbol: string;
  /** Where it is named; relative to the workspace root. */
  readonly file?: string | undefined;
  readonly line?: number | undefined;
  readonly maxResults: number;
}

/** Symbols of TypeScript, JavaScript, Python, Rust and Go. What its language server can't take is parsed instead. */
export interface Symbols {
  find(query: SymbolQuery): Promise<Found & { symbols: FoundSymbol[]; total: number }>;
  /** Throws NOT_FOUND, with names that are near, where nothing is called so. */
  references(
    query: ReferenceQuery,
  ): Promise<Found & { references: FoundReference[]; definitions: FoundSymbol[]; total: number }>;
}
