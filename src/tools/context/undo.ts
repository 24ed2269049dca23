/** What a tool asks of the undo journal, as `ToolContext.undo`. */

import * as z from 'zod';

export interface UndoRequest {
  /** Keys of the calls' undo journals, the newest call first. */
  readonly keys: readonly string[];
  /** All paths that undoing may change. */
  readonly paths: readonly string[];
  /** Whether to overwrite later changes. */
  readonly force: boolean;
}

export const undoOutcome = z.strictObject({
  restored: z.array(z.string()).describe('Paths that are as they were before the call.'),
  removed: z.array(z.string()).describe('Those of restored that were removed, because the call had created them.'),
  conflicts: z.array(z.string()).describe('Paths that were changed since, or not kept.'),
  merged: z.array(z.string()).describe('Those of restored that also keep later changes.'),
});
export type UndoOutcome = z.output<typeof undoOutcome>;
