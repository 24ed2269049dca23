/** Languages whose symbols are known, by the endings of their files. */

/** As the language server calls them. */
const SERVED: Readonly<Record<string, string>> = {
  ...{ ts: 'typescript', mts: 'typescript', cts: 'typescript', tsx: 'typescriptreact' },
  ...{ js: 'javascript', mjs: 'javascript', cjs: 'javascript', jsx: 'javascriptreact' },
};

/** As the parsers' registry calls them. */
const PARSED: Readonly<Record<string, ParsedLanguage>> = { py: 'python', pyi: 'python', rs: 'rust', go: 'go' };

export type ParsedLanguage = 'python' | 'rust' | 'go';

const endingOf = (path: string): string => path.slice(path.lastIndexOf('.') + 1);
const rowOf = <T>(table: Readonly<Record<string, T>>, path: string): T | undefined =>
  Object.hasOwn(table, endingOf(path)) ? table[endingOf(path)] : undefined;

/** The language of a file that TypeScript's language server reads; undefined for others. */
export const servedLanguage = (path: string): string | undefined => rowOf(SERVED, path);
/** The language of a file that is parsed; undefined for others. */
export const parsedLanguage = (path: string): ParsedLanguage | undefined => rowOf(PARSED, path);
/** Whether a file says what belongs to a project of TypeScript's. */
export const isProject = (path: string): boolean => /(^|\/)[tj]sconfig[^/]*\.json$/.test(path);
/** Whether the language server's answers hang on a file. */
export const isServed = (path: string): boolean => servedLanguage(path) !== undefined || path.endsWith('.json');
