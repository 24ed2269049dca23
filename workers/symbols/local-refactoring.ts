/** Changes inside of one file that TypeScript 6 can make and TypeScript 7 can not; types alone, for both sides. */

/** What the child process is asked. Offsets count UTF-16 units, without a byte order mark. */
export interface LocalRefactoring {
  readonly operation: 'extract_function' | 'extract_variable' | 'extract_type' | 'inline';
  /** Absolute path. */
  readonly workspace: string;
  /** Relative to the workspace root. */
  readonly path: string;
  readonly text: string;
  /** The code to extract; for `inline` the name. */
  readonly start: number;
  readonly end: number;
  /** The name of what is extracted; one of TypeScript's choice if absent. */
  readonly newName?: string;
  /** A function or variable is declared as near as possible, or as far outside as its code allows. */
  readonly scope?: 'nearest' | 'outermost';
}

/** The new text, or why there is none. */
export type LocallyRefactored =
  | { readonly text: string; readonly name?: string }
  | { readonly refused: string; readonly code: 'INPUT_INVALID' | 'CONFLICT' };
