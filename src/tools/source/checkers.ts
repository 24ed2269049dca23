/** The built-in linter and formatter; workers/code/checkers.ts runs them, in processes that may be killed. */
import * as z from 'zod';

export interface SourceText {
  /** Relative to the workspace root. */
  readonly path: string;
  readonly text: string;
}

export const lintIssue = z.strictObject({
  file: z.string(),
  line: z.int(),
  column: z.int().describe("From 1, in UTF-16 units; those of the workspace's own linter as it counts them."),
  rule: z.string(),
  severity: z.enum(['error', 'warning']),
  message: z.string(),
  fixable: z.boolean(),
});
export type LintIssue = z.output<typeof lintIssue>;

export interface LintAnswer {
  /** The issues that are left, if texts were fixed. */
  readonly issues: LintIssue[];
  /** The texts that fixing changed. */
  readonly texts: SourceText[];
  readonly fixed: number;
}

/** The program that did the work. */
export const engine = z.strictObject({ name: z.string(), version: z.string(), config: z.string() });
export type Engine = z.output<typeof engine>;

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
