/** What tools search for, and what they find. */
import * as z from 'zod';

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

export const foundLine = z.strictObject({
  file: z.string().describe('Relative to the workspace root.'),
  line: z.int().positive(),
  column: z.int().positive().describe('Of the first match, from 1 in characters; in bytes if the line is over 1 MB.'),
  text: z.string().describe('The line; a long one is cut around the match, with … where it was.'),
  before: z.array(z.string()).optional(),
  after: z.array(z.string()).optional(),
});
export type FoundLine = z.output<typeof foundLine>;
