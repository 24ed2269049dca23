/** Queries about the symbols of a workspace; workers/symbols/symbols.ts answers them. */
import * as z from 'zod';

/**
 * Kinds of symbols that callers filter by: methods count as functions, structs as classes, traits as interfaces,
 * enums as types, fields and constants as variables.
 */
export const SYMBOL_TYPES = ['function', 'class', 'interface', 'type', 'variable', 'module'] as const;
export type SymbolType = (typeof SYMBOL_TYPES)[number];

/** `semantic`: resolved by the language's rules; `syntactic`: matched by name in the syntax tree; `mixed`: some of both. */
export const PRECISIONS = ['semantic', 'syntactic', 'mixed'] as const;
export type Precision = (typeof PRECISIONS)[number];

export const foundSymbol = z.strictObject({
  name: z.string(),
  type: z.enum(SYMBOL_TYPES),
  file: z.string().describe('Relative to the workspace root.'),
  line: z.int().positive(),
  preview: z.string().describe('The line, cut at 200 characters.'),
});
export type FoundSymbol = z.output<typeof foundSymbol>;

export const foundReference = z.strictObject({
  file: z.string().describe('Relative to the workspace root.'),
  line: z.int().positive(),
  column: z.int().positive().describe('From 1, in UTF-16 units.'),
  context: z.string().describe('The line, cut around the name at 200 characters.'),
});
export type FoundReference = z.output<typeof foundReference>;

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
