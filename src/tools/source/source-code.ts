/** Questions about source code that parsers answer; workers/code/workspace-code.ts answers them. */
import * as z from 'zod';
import type { Analysis, AnalysisQuery } from './analysis.ts';
import { SYMBOL_TYPES } from './symbols.ts';

/** The languages that parsers read. */
export const CODE_LANGUAGES = ['typescript', 'tsx', 'javascript', 'python', 'go', 'rust'] as const;
export type CodeLanguage = (typeof CODE_LANGUAGES)[number];

const file = z.string().describe('Relative to the workspace root.');
const line = z.int().positive();
const column = line.describe('From 1, in UTF-16 units.');

export const parsedCode = z.strictObject({
  language: z.enum(CODE_LANGUAGES),
  symbols: z.array(z.strictObject({ name: z.string(), type: z.enum(SYMBOL_TYPES), line, column, endLine: line })),
  imports: z.array(
    z.strictObject({
      module: z.string().describe('As it is written.'),
      line,
      names: z.array(z.string()).describe('`*` for all, `default` for the default export.'),
      kind: z.enum(['static', 'dynamic', 'reexport', 'require']),
      typeOnly: z.boolean().describe('Whether nothing is imported at run time.'),
    }),
  ),
  exports: z.array(
    z.strictObject({
      name: z.string(),
      line,
      typeOnly: z.boolean(),
      from: z.string().optional().describe('The module whose export is passed on.'),
    }),
  ),
  errors: z.array(z.strictObject({ line, column, message: z.string() })),
  ast: z
    .array(
      z.strictObject({
        kind: z.string().describe('Kind of node in the tree-sitter grammar.'),
        depth: z.int().nonnegative(),
        parent: z
          .int()
          .nonnegative()
          .optional()
          .describe('Index in this list of the node that holds it; absent for the root.'),
        line,
        endLine: line,
        text: z.string().optional().describe('Of nodes without named nodes in them, cut at 80 characters.'),
      }),
    )
    .optional()
    .describe('The tree: named nodes, each after the one that holds it.'),
  truncated: z.boolean().describe('Whether a list is cut.'),
});
export type ParsedCode = z.output<typeof parsedCode>;
export type CodeSymbol = ParsedCode['symbols'][number];
export type CodeImport = ParsedCode['imports'][number];
export type CodeExport = ParsedCode['exports'][number];
export type CodeError = ParsedCode['errors'][number];
/** A named node of a syntax tree, in the order of the text. */
export type CodeNode = NonNullable<ParsedCode['ast']>[number];

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

export const importGraph = z.strictObject({
  nodes: z.array(file).describe('Files that are shown.'),
  edges: z.array(
    z.strictObject({ from: file, to: file, line: line.describe('Of the first import.'), typeOnly: z.boolean() }),
  ),
  cycles: z.array(z.array(file)).describe('Circles, in the order of the imports; each file of one is in one of these.'),
  unresolved: z.array(z.strictObject({ file, line, module: z.string(), reason: z.string() })),
  external: z.array(z.string()).describe('Packages and modules of others that are imported.'),
  unusedFiles: z.array(z.strictObject({ file, reason: z.string() })).describe('What may be unused, and why.'),
  unusedExports: z.array(z.strictObject({ file, line, name: z.string(), reason: z.string() })),
  totals: z
    .strictObject({
      files: z.int(),
      edges: z.int(),
      cycles: z.int(),
      unresolved: z.int(),
      external: z.int(),
    })
    .describe('Counts of the whole graph.'),
  truncated: z.boolean().describe('Whether files or entries are left out.'),
  skipped: z.array(file).describe('Files that could not be parsed.'),
});
export type ImportGraphAnswer = z.output<typeof importGraph>;
export type GraphEdge = ImportGraphAnswer['edges'][number];

/** Answers by syntax alone: nothing of the workspace runs, and only files that the policy shows are read. */
export interface SourceCode {
  /** Throws UNSUPPORTED for a language without a parser, CPU_LIMIT for a text that no parser comes to an end of. */
  parse(query: ParseQuery): Promise<ParsedCode>;
  /** Throws INPUT_INVALID for a file that is not in the graph, CPU_LIMIT if parsers crash on several files. */
  graph(query: GraphQuery): Promise<ImportGraphAnswer>;
  /** Throws UNSUPPORTED for a file without a parser, CPU_LIMIT if parsers crash on several files. */
  analyze(query: AnalysisQuery): Promise<Analysis>;
}
