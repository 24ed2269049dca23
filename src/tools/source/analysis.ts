/** Answers about the quality of code; workers/code/code-analysis.ts makes them. */
import * as z from 'zod';

const file = z.string().describe('Relative to the workspace root.');
const line = z.int().positive();
const column = line.describe('From 1, in UTF-16 units.');
const count = z.int().nonnegative();

export const SEVERITIES = ['critical', 'high', 'medium', 'low'] as const;

export const analysis = z.strictObject({
  files: count.describe('Sources that were read.'),
  complexity: z
    .strictObject({
      average: z.number().describe('Of cyclomatic complexity.'),
      max: count,
      maintainability: count.describe('Mean of the functions.'),
      totalFunctions: count,
      functions: z
        .array(
          z.strictObject({
            name: z.string(),
            file,
            line,
            column,
            cyclomatic: count.describe('Ways through the function.'),
            cognitive: count.describe('How hard it is to read; what is nested counts more.'),
            maintainability: count.describe(
              'Index from 0 to 100, higher is better: by size, vocabulary and complexity.',
            ),
            lines: count,
            parameters: count,
          }),
        )
        .describe('The hardest to read first.'),
    })
    .optional(),
  duplicates: z
    .array(
      z.strictObject({
        file1: file,
        line1: line,
        file2: file,
        line2: line,
        lines: count,
        similarity: z.number().describe('Share of equal tokens, 0.8 to 1.'),
      }),
    )
    .optional()
    .describe('The longest first.'),
  dependencies: z
    .strictObject({
      direct: z.array(file).describe('Files elsewhere that are imported.'),
      transitive: z.array(file).describe('Files that those import.'),
      external: z.array(z.string()).describe('Packages.'),
      cycles: z.array(z.array(file)),
    })
    .optional(),
  security: z
    .array(z.strictObject({ severity: z.enum(SEVERITIES), rule: z.string(), message: z.string(), file, line, column }))
    .optional()
    .describe('The worst first.'),
  truncated: z.boolean().describe('Whether files or findings are left out.'),
  skipped: z.array(file).describe('Files that could not be parsed.'),
});
export type Analysis = z.output<typeof analysis>;
export type Complexity = NonNullable<Analysis['complexity']>;
export type FunctionComplexity = Omit<Complexity['functions'][number], 'file'>;
export type Duplicate = NonNullable<Analysis['duplicates']>[number];
export type SecurityFinding = NonNullable<Analysis['security']>[number];

export const CODE_CHECKS = ['complexity', 'duplicates', 'dependencies', 'security'] as const;

export interface AnalysisQuery {
  /** A file or a directory. */
  readonly path: string;
  readonly checks: readonly (typeof CODE_CHECKS)[number][];
  readonly top: number;
  /** Functions below this complexity of both kinds are not listed. */
  readonly threshold?: number | undefined;
}
