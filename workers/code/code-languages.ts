/** The languages of the code tools, by the endings of files. */
import type { CodeLanguage } from '../../src/tools/source/source-code.ts';
import { type ParsedLanguage, parsedInstead, parsedLanguage } from '../symbols/source-languages.ts';

/** The ending of a file whose language is given in another way. */
const ENDINGS: Readonly<Record<CodeLanguage, string>> = {
  typescript: 'ts',
  tsx: 'tsx',
  javascript: 'jsx',
  python: 'py',
  go: 'go',
  rust: 'rs',
};

/** Endings of JavaScript, which is parsed by the grammar of TSX. */
const JAVASCRIPT = /\.[mc]?jsx?$/;

export const fileNameOf = (language: CodeLanguage): string => `code.${ENDINGS[language]}`;

/** The grammar for a file; undefined for a language without a parser. */
export const grammarOf = (path: string): ParsedLanguage | undefined => parsedInstead(path) ?? parsedLanguage(path);

export function languageOf(path: string): CodeLanguage | undefined {
  return JAVASCRIPT.test(path) ? 'javascript' : grammarOf(path);
}
