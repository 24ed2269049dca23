/** The built-in linter and formatter; workers/code/checkers.ts runs them, in processes that may be killed. */

export interface SourceText {
  /** Relative to the workspace root. */
  readonly path: string;
  readonly text: string;
}

export interface LintIssue {
  file: string;
  line: number;
  /** From 1, in UTF-16 units. */
  column: number;
  rule: string;
  severity: 'error' | 'warning';
  message: string;
  fixable: boolean;
}

export interface LintAnswer {
  /** The issues that are left, if texts were fixed. */
  readonly issues: LintIssue[];
  /** The texts that fixing changed. */
  readonly texts: SourceText[];
  readonly fixed: number;
}

/** The program that did the work. */
export interface Engine {
  name: string;
  version: string;
  /** The configuration that it had. */
  config: string;
}

export interface Checkers {
  /** The programs that lint or format these sources. */
  linterOf(sources: readonly SourceText[]): Engine;
  formatterOf(sources: readonly SourceText[]): Engine;
  /** Lints texts by our own configuration; runs nothing of the workspace. Throws TIMEOUT, OUTPUT_LIMIT, HOST_CRASHED. */
  lint(sources: readonly SourceText[], options: { readonly fix: boolean }): Promise<LintAnswer>;
  /** The formatted texts, in the order of `sources`; a text that is no valid code has the reason instead. */
  format(
    sources: readonly SourceText[],
    options: Readonly<Record<string, unknown>>,
  ): Promise<({ readonly text: string } | { readonly refused: string })[]>;
}
