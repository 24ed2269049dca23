/** What TypeScript's own programs know of a workspace; workers/symbols answers. They run no code of the workspace. */
import * as z from 'zod';
import type { Read } from '../../base/result-shapes.ts';

/** A diagnostic of the compiler. */
export const typeProblem = z.strictObject({
  file: z.string().describe('Relative to the workspace root.'),
  line: z.int().positive(),
  column: z.int().positive().describe('From 1, in UTF-16 units.'),
  code: z.string(),
  message: z.string(),
  isConfig: z.boolean().optional().describe('Whether it is about settings of the project, which then checks little.'),
  hint: z.string().optional(),
});
export type TypeProblem = z.output<typeof typeProblem>;

/** Most problems that are listed. */
export const PROBLEMS_MAX = 200;

export const typeCheck = z.strictObject({
  errors: z.array(typeProblem),
  warnings: z.array(typeProblem),
  totalErrors: z.int().nonnegative(),
  checkedFiles: z.int().nonnegative().describe('Files of the workspace that were checked.'),
  truncated: z.boolean().describe(`Whether files were left out, or problems beyond ${PROBLEMS_MAX}.`),
  engine: z.strictObject({ name: z.string(), version: z.string() }),
});
export type TypeCheck = z.output<typeof typeCheck>;

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
const textEdit = z.strictObject({ start: z.int().min(0), end: z.int().min(0), text: z.string() });
export type TextEdit = z.output<typeof textEdit>;

/** Most files that one refactoring changes. */
export const REFACTORED_FILES_MAX = 500;

const path = z.string().min(1).max(4096);
const hash = z.string().max(256);
/**
 * What a refactoring would change, and the contents that this was computed from. `move.ifHash` is that of a file; a directory has none.
 * `newErrors`: those that the files would have and do not have now. `truncated`: there are more projects or files than were loaded or
 * checked. `unresolved`: missing names without an import, or with more than one to choose from.
 */
export const refactorPlan = z.strictObject({
  files: z
    .array(
      z.strictObject({
        path,
        ifHash: hash,
        edits: z.array(textEdit).max(100_000),
      }),
    )
    .max(REFACTORED_FILES_MAX),
  move: z.strictObject({ from: path, to: path, ifHash: hash.optional() }).optional(),
  newErrors: z.array(typeProblem).max(100),
  checkedFiles: z.int().min(0),
  truncated: z.boolean(),
  unresolved: z.array(z.strictObject({ name: z.string(), choices: z.array(z.string()).max(10) })).max(100),
});
export type RefactorPlan = Read<z.output<typeof refactorPlan>>;
