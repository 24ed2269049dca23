/** What a tool asks of the undo journal, as `ToolContext.undo`. */

/** Calls to undo. */
export interface UndoRequest {
  /** Keys of the calls' undo journals, the newest call first. */
  readonly keys: readonly string[];
  /** All paths that undoing may change. */
  readonly paths: readonly string[];
  /** Whether to overwrite later changes. */
  readonly force: boolean;
}

export interface UndoOutcome {
  /** Paths restored to their state before the call. */
  readonly restored: string[];
  /** Restored paths that were removed, because the call had made them. */
  readonly removed: string[];
  /** Paths that changed since, or were not kept; with any of these nothing is restored, unless forced. */
  readonly conflicts: string[];
  /** Restored files that kept the changes made since. */
  readonly merged: string[];
}
