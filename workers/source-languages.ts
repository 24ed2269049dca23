/** Languages whose symbols are known, by the endings of their files. */

/** As the language server calls them. */
const SERVED: Readonly<Record<string, string>> = {
  ...{ ts: 'typescript', mts: 'typescript', cts: 'typescript', tsx: 'typescriptreact' },
  ...{ js: 'javascript', mjs: 'javascript', cjs: 'javascript', jsx: 'javascriptreact' },
};

/** As the parsers' registry calls them. */
const PARSED: Readonly<Record<string, ParsedLanguage>> = { py: 'python', pyi: 'python', rs: 'rust', go: 'go' };

/** Of files that the language server reads, for when it can't. */
const INSTEAD: Readonly<Record<string, ParsedLanguage>> = {
  ...{ ts: 'typescript', mts: 'typescript', cts: 'typescript', tsx: 'tsx' },
  ...{ js: 'tsx', mjs: 'tsx', cjs: 'tsx', jsx: 'tsx' },
};

export type ParsedLanguage = 'python' | 'rust' | 'go' | 'typescript' | 'tsx';

const endingOf = (path: string): string => path.slice(path.lastIndexOf('.') + 1);
const rowOf = <T>(table: Readonly<Record<string, T>>, path: string): T | undefined =>
  Object.hasOwn(table, endingOf(path)) ? table[endingOf(path)] : undefined;

/** The language of a file that TypeScript's language server reads; undefined for others. */
export const servedLanguage = (path: string): string | undefined => rowOf(SERVED, path);
/** The language of a file that is parsed; undefined for others. */
export const parsedLanguage = (path: string): ParsedLanguage | undefined => rowOf(PARSED, path);
/** What to parse a file of the language server's as. */
export const parsedInstead = (path: string): ParsedLanguage | undefined => rowOf(INSTEAD, path);
/** Whether a file says what belongs to a project of TypeScript's. */
export const isProject = (path: string): boolean => /(^|\/)[tj]sconfig[^/]*\.json$/.test(path);
/** Whether the language server's answers hang on a file. */
export const isServed = (path: string): boolean => servedLanguage(path) !== undefined || path.endsWith('.json');
