/** Previews of commands: what a command changed in an overlay of its workspace, as hosts report it and as callers see it. */
import * as z from 'zod';

const path = z.string().min(1).max(4096);
const bytes = z.int().min(0).nullable();

/** A path that differs; a removed folder ends with `/`, and stands for all that was in it. */
export const previewChange = z.strictObject({
  path,
  /** `mode`: only the permissions; `link`: a symbolic link, new or changed; `type`: a file became a folder, a link a file, … */
  kind: z.enum(['add', 'change', 'delete', 'mode', 'link', 'type']),
  /** Sizes of files; null if there is none. */
  bytesBefore: bytes,
  bytesAfter: bytes,
  /** Unified diff of a text, as long as there is room. */
  diff: z.string().optional(),
  /** Files and folders in a removed folder. */
  entries: z.int().min(0).optional(),
});
export type PreviewChange = z.output<typeof previewChange>;

/** A change that can't be committed. */
export const previewUnsupported = z.strictObject({ path, reason: z.string().max(256) });
export type PreviewUnsupported = z.output<typeof previewUnsupported>;

/** What a caller gets of a preview. */
export const commandPreview = z.strictObject({
  id: z.string(),
  expiresAt: z.iso.datetime(),
  /** Deletions first, all of them; of other changes the first `previewShownMax`. */
  changes: z.array(previewChange),
  /** Number of changes, listed or not. */
  total: z.int().min(0),
  unsupported: z.array(previewUnsupported),
});
export type CommandPreview = z.output<typeof commandPreview>;

/**
 * One step of a commit. `put`: what the preview has at the path comes there, a folder with all in it; `mkdir`: an empty folder; `mode`:
 * the permissions of a folder; `delete`: nothing is there.
 */
export const previewStep = z.strictObject({
  kind: z.enum(['put', 'mkdir', 'mode', 'delete']),
  path,
  /** Permissions, for `mkdir` and `mode`; with `old` those of the file that was there. */
  mode: z.int().min(0).max(0o777).optional(),
  /** Number of the file that keeps the text that was there, so that it can be merged. */
  old: z.int().min(0).optional(),
  /** The state of what was there; null for nothing, `moved` if it changed while the command ran. */
  base: z.string().max(80).nullable(),
});
export type PreviewStep = z.output<typeof previewStep>;

/** A host's report of a preview. */
export const previewReport = z.strictObject({
  changes: z.array(previewChange),
  total: z.int().min(0),
  unsupported: z.array(previewUnsupported),
  /** Paths of the steps, for the policy: a folder that is put or deleted stands for all in it. */
  steps: z.array(previewStep.pick({ kind: true, path: true })),
  bytes: z.int().min(0),
});
export type PreviewReport = z.output<typeof previewReport>;

/** The list that a host keeps beside what the command wrote. */
export const previewList = z.strictObject({
  steps: z.array(previewStep),
  changes: z.array(previewChange.omit({ diff: true })),
  unsupported: z.array(previewUnsupported),
});
export type PreviewList = z.output<typeof previewList>;
