/** The steps from each schema version of the state directory to the next one. */

export interface Migration {
  /** Names of all files in the state directory that the step reads, changes or makes; a step removes none. */
  readonly files: readonly string[];
  /** Changes the copies of these files in `folder`, any of which may be missing, and closes them. */
  run(folder: string): void | Promise<void>;
}

/** The first leads from version 1 to 2, the second to 3, and so on. A step that has been published never changes. */
export const MIGRATIONS: readonly Migration[] = [];
