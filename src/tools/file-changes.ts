/** Operations on files beyond the content of one file, as `ToolContext.changes`. */

/** New content for an existing file. */
export interface FileUpdate {
  readonly path: string;
  readonly content: Uint8Array;
  /** Hash of the content that the new content was made from. */
  readonly ifHash: string;
  /** The target of the tool's effect in which the file was found, if not the same for all files. */
  readonly declared?: string;
}

/**
 * Operations on files. Each happens as a whole or not at all, follows no links, and refuses what the policy or
 * Ringfence itself protects, under either name and anywhere in a tree.
 */
export interface FileChanges {
  /** The state of a path for `Preview.preImages`: null for nothing, else a text that changes with any change in it. */
  state(path: string): Promise<string | null>;
  /** Whether undo could restore what is at a path: `none` if that is more than one call may keep. */
  undoOf(path: string): Promise<'full' | 'none'>;
  /** Replaces the content of files found in `declared`. Throws CONFLICT if one changed meanwhile. */
  replaceAll(files: readonly FileUpdate[], declared: string): Promise<void>;
  /** Makes a directory with its missing parents; false if it exists. Throws ALREADY_EXISTS if something else is there. */
  makeDirectory(path: string): boolean;
  /** Deletes a file, a link or an empty directory; with `recursive` a whole tree. Resolves with the number of deleted entries. */
  remove(path: string, options: { recursive: boolean }): Promise<number>;
  /** Moves a file, a link or a directory. Only files are overwritten. Throws ALREADY_EXISTS. */
  rename(from: string, to: string, options: { overwrite: boolean }): Promise<void>;
  /**
   * Copies a file, a link or a directory; with `overwrite` a directory is merged into an existing one. Resolves with
   * the number of copied entries.
   */
  copy(from: string, to: string, options: { overwrite: boolean }): Promise<number>;
}
