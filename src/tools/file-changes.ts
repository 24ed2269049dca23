/** What tools may do to more than one file's content, as `ToolContext.changes`. */

/** New content of a file that is there. */
export interface FileUpdate {
  readonly path: string;
  readonly content: Uint8Array;
  /** Of what the content was made from. */
  readonly ifHash: string;
}

/**
 * Changes of more than one file's content. Each happens as a whole or not at all, follows no links, and refuses what the
 * policy or Ringfence itself protects, by both names and anywhere in a tree.
 */
export interface FileChanges {
  /** What stands at a path, for `Preview.preImages`: null for nothing, else a text that changes with anything in it. */
  state(path: string): Promise<string | null>;
  /** Whether undo could bring back what stands at a path: `none` where it is more than one call may keep. */
  undoOf(path: string): Promise<'full' | 'none'>;
  /** Replaces the content of files found in `declared`. Throws CONFLICT where one changed meanwhile. */
  replaceAll(files: readonly FileUpdate[], declared: string): Promise<void>;
  /** Makes a directory and those above it that are missing; false where it is there. Throws ALREADY_EXISTS for what is none. */
  makeDirectory(path: string): boolean;
  /** Deletes a file, a link or an empty directory; with `recursive` a whole tree. Resolves with how many entries went. */
  remove(path: string, options: { recursive: boolean }): Promise<number>;
  /** Moves a file, a link or a directory. Only files are overwritten. Throws ALREADY_EXISTS. */
  rename(from: string, to: string, options: { overwrite: boolean }): Promise<void>;
  /** Copies the same; with `overwrite` a directory is merged into one that is there. Resolves with how many entries were copied. */
  copy(from: string, to: string, options: { overwrite: boolean }): Promise<number>;
}
