/** Changes of previews that can be committed. */
import * as z from 'zod';
import type { PreviewChange } from '../../base/preview.ts';

export interface CommitRequest {
  /** All paths that may change: those of the steps of the preview that the policy judged. */
  readonly paths: readonly string[];
  /** The changed paths to commit; all of them if absent. */
  readonly only?: readonly string[] | undefined;
  /** Whether to merge texts that others changed since in other lines. */
  readonly merges: boolean;
  /** Whether to replace what changed since the preview, too. */
  readonly force: boolean;
}

export const commitOutcome = z.strictObject({
  committed: z.array(z.string()).describe('Paths that are as the command left them; a folder stands for all in it.'),
  removed: z.array(z.string()).describe('Those of committed that are gone.'),
  merged: z.array(z.string()).describe('Those of committed that keep what others changed since.'),
  conflicts: z.array(z.string()).describe('Paths that changed since the preview; then nothing is committed.'),
});
export type CommitOutcome = z.output<typeof commitOutcome>;

/** The preview that a call is about. */
export interface KeptChanges {
  /** Commits all of it or nothing. Throws UNSUPPORTED for changes that can't be committed, NOT_FOUND for paths without a change. */
  commit(request: CommitRequest): Promise<CommitOutcome>;
  /** One change with its diff, if it has one. Throws NOT_FOUND. */
  change(path: string): Promise<PreviewChange>;
}
