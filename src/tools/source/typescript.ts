/** What TypeScript's own programs know of a workspace; workers/symbols answers. They run no code of the workspace. */

/** A diagnostic of the compiler. */
export interface TypeProblem {
  /** Relative to the workspace root. */
  file: string;
  line: number;
  /** Counted from 1, in characters. */
  column: number;
  /** The number that the compiler prints: TS2322. */
  code: string;
  message: string;
  /** Whether it is about the project's settings and not about types. */
  isConfig?: boolean;
  hint?: string;
}

export interface TypeCheck {
  errors: TypeProblem[];
  warnings: TypeProblem[];
  /** All errors, those that are not listed included. */
  totalErrors: number;
  checkedFiles: number;
  /** Whether some files were not checked, or some problems are not listed. */
  truncated: boolean;
  engine: { name: string; version: string };
}

export interface TypeCheckQuery {
  /** Files or directories, relative to the workspace root. */
  readonly paths: readonly string[];
  /** The least severe kind that is listed. */
  readonly severity: 'error' | 'warning' | 'suggestion';
  readonly maxProblems: number;
}

export interface ProjectCheckQuery {
  /** A tsconfig file, or the directory of one. */
  readonly project: string;
  /** Whether to check as with `strict`, whatever the project says. */
  readonly strict: boolean;
  readonly maxProblems: number;
}

export interface TypeScript {
  /** Checks files on their own. Throws UNSUPPORTED for files that TypeScript does not read. */
  checkFiles(query: TypeCheckQuery): Promise<TypeCheck>;
  /** Checks a whole project. Throws MEMORY_LIMIT, OUTPUT_LIMIT. */
  checkProject(query: ProjectCheckQuery): Promise<TypeCheck>;
  /** The project file of a directory, relative to the workspace root; undefined if it has none. */
  projectOf(directory: string): string | undefined;
}
