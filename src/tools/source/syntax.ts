/** Works on the syntax trees of source texts; workers/code/syntax.ts does the work, in a child that may be killed. */

export const REWRITE_LANGUAGES = ['typescript', 'tsx', 'javascript', 'python', 'rust', 'go'] as const;
export type RewriteLanguage = (typeof REWRITE_LANGUAGES)[number];

export interface RewriteRequest {
  readonly language: RewriteLanguage;
  /** The file, for errors; a TypeScript file that ends with `x` may hold JSX. */
  readonly path: string;
  readonly text: string;
  /** Code in which `$NAME` stands for one node and `$$$NAME` for any number of them. */
  readonly pattern: string;
  /** Code in which these names stand for what they matched. */
  readonly rewrite: string;
  /** The most replacements in one text; more are an error. */
  readonly replacementsMax: number;
}

/** One replacement; offsets in UTF-16 units. */
export interface TextRange {
  readonly from: number;
  readonly to: number;
  readonly text: string;
}

export interface Syntax {
  /**
   * The replacements for all matches of a pattern; of matches that lie in each other, the outermost. Undefined if the
   * parser crashed or was not done in time. Throws INPUT_INVALID for a pattern that is not one piece of code, for an
   * unknown name in `rewrite`, and for a result that is no longer valid code; FILE_LIMIT for too many matches.
   */
  rewrite(request: RewriteRequest): Promise<TextRange[] | undefined>;
}
