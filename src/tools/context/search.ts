/** What tools search for, and what they find. */

/** The files of a search. Hidden files, and those that .gitignore, .ignore and .rgignore exclude, are left out. */
export interface SearchScope {
  /**
   * Glob for files: with a `/` against the path below the searched directory, else against the name. A segment `.…`
   * matches hidden files.
   */
  readonly include?: string | undefined;
  /** Globs of files and directories to leave out. */
  readonly exclude?: readonly string[] | undefined;
  /** File name extension, without the dot. */
  readonly extension?: string | undefined;
  /** Whether to search subdirectories; the default is true. */
  readonly recursive?: boolean;
}

/** A search for lines that match a regular expression in Rust's syntax, or contain a plain text. */
export interface ContentQuery extends SearchScope {
  readonly pattern: string;
  readonly literal: boolean;
  readonly caseSensitive: boolean;
}

/** The lines of a search for contents, and what it passed over. */
export interface FoundInFiles {
  matches: FoundLine[];
  filesSearched: number;
  truncated: boolean;
  /** Absent if nothing was passed over. */
  skipped?: { tooLarge: number; tooDeep: number; binary: number };
}

export interface FoundLine {
  /** Relative to the workspace root. */
  file: string;
  line: number;
  /** Column of the first match, counted from 1 in characters. */
  column: number;
  /** The line; a long one is cut around the match with `…`. */
  text: string;
  before?: string[];
  after?: string[];
}
