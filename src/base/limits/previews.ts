/** Bounds of previews: commands that ran over an overlay of their workspace, whose changes wait to be committed. */
import { MiB } from './units.ts';

export const previewLimits = {
  /** Time for which a preview is kept: 30 minutes. After it, what lies below has mostly moved on. */
  previewKeptMs: 30 * 60_000,
  /** Previews of one session that are kept at once; each holds a copy of what its command wrote. */
  previewsPerSessionMax: 8,
  /** Previews kept at once, over all sessions; of the principal with the most the oldest is dropped. */
  previewsMax: 64,
  /** Bytes of all previews on the disk: a command that takes its preview beyond it is ended. */
  previewBytesMax: 1024 * MiB,
  /** Bytes of changed texts that one preview keeps as they were, to merge them; what is beyond is a conflict if it changes meanwhile. */
  previewOldBytesMax: 16 * MiB,
  /** Files and folders that one preview may change; reading 50 000 takes about a second. */
  previewEntriesMax: 50_000,
  /** Interval at which the size of a running preview is measured; a fast disk takes about 1 GiB in that time. */
  previewMeasureMs: 1_000,
  /** Changes that a result lists, besides deletions, all of which are listed; a model pays for each. */
  previewShownMax: 500,
  /** Entries of a new folder that are committed in one step, and undone in one. */
  previewStepEntriesMax: 1_000,
};
