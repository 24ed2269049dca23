/** What a tool asks of the undo journal, as `ToolContext.undo`. */

/** A call to undo. */
export interface UndoRequest {
  /** Key of the call's undo journal. */
  readonly key: string;
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
