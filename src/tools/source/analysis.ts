/** Answers about the quality of code; workers/code/code-analysis.ts makes them. */

/** Paths are relative to the workspace root; lines and columns count from 1. */
export interface FunctionComplexity {
  name: string;
  line: number;
  column: number;
  /** Cyclomatic complexity: the number of independent paths through the function. */
  cyclomatic: number;
  /** Cognitive complexity: nested branches count more. */
  cognitive: number;
  /** Maintainability index, 0 to 100. */
  maintainability: number;
  lines: number;
  parameters: number;
}

export interface Complexity {
  /** Mean of cyclomatic complexity, over all functions. */
  average: number;
  max: number;
  /** Mean of the maintainability index, over all functions. */
  maintainability: number;
  totalFunctions: number;
  functions: (FunctionComplexity & { file: string })[];
}

/** Two stretches of code that are equal apart from layout, comments and some names. */
export interface Duplicate {
  file1: string;
  line1: number;
  file2: string;
  line2: number;
  lines: number;
  /** The share of tokens that are equal, names and values included. */
  similarity: number;
}

export const SEVERITIES = ['critical', 'high', 'medium', 'low'] as const;

export interface SecurityFinding {
  severity: (typeof SEVERITIES)[number];
  rule: string;
  message: string;
  file: string;
  line: number;
  column: number;
}

export const CODE_CHECKS = ['complexity', 'duplicates', 'dependencies', 'security'] as const;

export interface AnalysisQuery {
  /** A file or a directory. */
  readonly path: string;
  readonly checks: readonly (typeof CODE_CHECKS)[number][];
  readonly top: number;
  /** Functions below this complexity of both kinds are not listed. */
  readonly threshold?: number | undefined;
}

export interface Analysis {
  files: number;
  complexity?: Complexity;
  duplicates?: Duplicate[];
  dependencies?: { direct: string[]; transitive: string[]; external: string[]; cycles: string[][] };
  security?: SecurityFinding[];
  truncated: boolean;
  /** Files that no parser could read. */
  skipped: string[];
}
