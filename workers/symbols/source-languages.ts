/** The languages with symbol support, by file extension. */

/** Language ids of the language server. */
const SERVED: Readonly<Record<string, string>> = {
  ts: 'typescript',
  mts: 'typescript',
  cts: 'typescript',
  tsx: 'typescriptreact',
  js: 'javascript',
  mjs: 'javascript',
  cjs: 'javascript',
  jsx: 'javascriptreact',
};

/** Names in the parser registry. */
const PARSED: Readonly<Record<string, ParsedLanguage>> = { py: 'python', pyi: 'python', rs: 'rust', go: 'go' };

/** Parsers for the language server's files, used if the server fails. */
const INSTEAD: Readonly<Record<string, ParsedLanguage>> = {
  ts: 'typescript',
  mts: 'typescript',
  cts: 'typescript',
  tsx: 'tsx',
  js: 'tsx',
  mjs: 'tsx',
  cjs: 'tsx',
  jsx: 'tsx',
};

export type ParsedLanguage = 'python' | 'rust' | 'go' | 'typescript' | 'tsx';

const endingOf = (path: string): string => path.slice(path.lastIndexOf('.') + 1);
const rowOf = <T>(table: Readonly<Record<string, T>>, path: string): T | undefined =>
  Object.hasOwn(table, endingOf(path)) ? table[endingOf(path)] : undefined;

/** The language of a file that TypeScript's language server reads; undefined for others. */
export const servedLanguage = (path: string): string | undefined => rowOf(SERVED, path);
/** The language of a file that is parsed; undefined for others. */
export const parsedLanguage = (path: string): ParsedLanguage | undefined => rowOf(PARSED, path);
/** The parser for a file of the language server's, used if the server fails. */
export const parsedInstead = (path: string): ParsedLanguage | undefined => rowOf(INSTEAD, path);
/** Whether a file defines a TypeScript project. */
export const isProject = (path: string): boolean => /(^|\/)[tj]sconfig[^/]*\.json$/.test(path);
/** Whether the language server's answers depend on a file. */
export const isServed = (path: string): boolean => servedLanguage(path) !== undefined || path.endsWith('.json');
