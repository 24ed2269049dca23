/** What TypeScript's own programs know of a workspace; workers/symbols answers. They run no code of the workspace. */

/** A diagnostic of the compiler. */
export interface TypeProblem {
  /** Relative to the workspace root. */
  file: string;
  line: number;
  /** Counted from 1, in UTF-16 units. */
  column: number;
  /** The number that the compiler prints: TS2322. */
  code: string;
  message: string;
  /** Whether it is about the project's settings and not about types. */
  isConfig?: boolean | undefined;
  hint?: string | undefined;
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
  /** Computes a refactoring; changes nothing. Throws CONFLICT with the new errors, NOT_FOUND, INPUT_INVALID, UNSUPPORTED. */
  refactor(query: RefactorQuery): Promise<RefactorPlan>;
  /** The project file of a directory, relative to the workspace root; undefined if it has none. */
  projectOf(directory: string): string | undefined;
}

/** The place of a name: a line and a column, a line and a name, or a name that is one symbol of the file. */
export interface NamePosition {
  readonly line?: number | undefined;
  /** Counted from 1, in UTF-16 units. */
  readonly column?: number | undefined;
  readonly symbol?: string | undefined;
}

export type RefactorQuery =
  | ({ readonly operation: 'rename'; readonly path: string; readonly newName: string } & NamePosition)
  | { readonly operation: 'move_file'; readonly path: string; readonly to: string }
  | {
      readonly operation: 'organize_imports' | 'remove_unused_imports' | 'add_missing_imports';
      readonly path: string;
    };

/** Replaces a part of a text; offsets in UTF-16 units, without a byte order mark. */
export interface TextEdit {
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

/** What a refactoring would change, and the contents that this was computed from. */
export interface RefactorPlan {
  readonly files: readonly { readonly path: string; readonly ifHash: string; readonly edits: readonly TextEdit[] }[];
  /** `ifHash` is that of a file; a directory has none. */
  readonly move?: { readonly from: string; readonly to: string; readonly ifHash?: string | undefined } | undefined;
  /** Errors that the files would have and do not have now. */
  readonly newErrors: readonly TypeProblem[];
  readonly checkedFiles: number;
  /** Whether there are more projects or files than were loaded or checked. */
  readonly truncated: boolean;
  /** Missing names without an import, or with more than one to choose from. */
  readonly unresolved: readonly { readonly name: string; readonly choices: readonly string[] }[];
}
