/** zod schemas of what became of calls, batches and undos, and their types: docs/protocol.md has both. */
import * as z from 'zod';
import { CATEGORIES, CODES, LAYERS } from './errors.ts';

const count = () => z.int().nonnegative();
const texts = () => z.array(z.string());

export const wireError = z.strictObject({
  code: z.enum(Object.keys(CODES) as [keyof typeof CODES, ...(keyof typeof CODES)[]]),
  category: z.enum(CATEGORIES),
  message: z.string(),
  recoverable: z.boolean(),
  layer: z.enum(LAYERS),
  suggestion: z.string().optional(),
  rule: z.string().optional(),
  details: z.record(z.string(), z.unknown()).optional(),
});

export const undo = z.enum(['full', 'partial', 'none']);

/** A path that can't be undone, and why. */
export const notKept = z.strictObject({ path: z.string(), why: z.string() });

export const effect = z.strictObject({
  kind: z.enum(['read', 'write', 'delete', 'exec', 'connect', 'query']),
  target: z
    .string()
    .describe('A path relative to the workspace, a command line, host:port, or the name of a database connection.'),
});

export const resources = z.strictObject({
  cpuMs: z.number().describe('Of the worker thread, or of the whole process tree of a command.'),
  peakBytes: z.number().optional(),
  outputBytes: z.number().describe('What the tool produced, whether or not it reached the caller.'),
  processes: z.number().optional(),
  verdict: z.enum([
    ...(['ok', 'timeout', 'cpu', 'memory', 'processes', 'output', 'file', 'cancelled', 'denied', 'crashed'] as const),
  ]),
  enforcedBy: z.string().describe('What enforced, or would have enforced, the limits of this call.'),
});

export const fileChange = z.strictObject({
  path: z.string().describe('As the caller named it; a directory that changed with all its content ends with `/`.'),
  kind: z.enum(['create', 'modify', 'delete', 'rename']),
  from: z.string().optional().describe('The earlier path of a renamed file.'),
});

export const undoResult = z.strictObject({
  callId: z.string().optional().describe('The id of the undo call; absent if no undo was tried.'),
  undone: z.string().optional().describe('The call that was undone.'),
  restored: texts(),
  removed: texts(),
  conflicts: texts(),
  merged: texts(),
  undo,
  left: z.array(notKept).optional().describe('What else the undone call changed, which was not kept.'),
  restoreCommand: z.string().optional().describe('After an installation: what brings `left` back to the lockfile.'),
  error: wireError.optional(),
});

export const commitResult = z.strictObject({
  callId: z.string().optional().describe('The commit, by which it can be undone; absent if nothing was tried.'),
  previewId: z.string(),
  committed: texts().describe('Paths that are as the command left them; a folder stands for all in it.'),
  removed: texts().describe('Those of `committed` that are gone.'),
  merged: texts().describe('Those of `committed` that keep what others changed since, in other lines.'),
  conflicts: texts().describe('Paths that changed since the preview; with any of these nothing is committed.'),
  undo,
  error: wireError.optional(),
});

export const batchMetadata = z.strictObject({
  totalCalls: count(),
  successCount: count(),
  failureCount: count(),
  skippedCount: count(),
  durationMs: z.number(),
  cacheHits: count(),
  levels: z.array(texts()),
  criticalPath: texts().describe('The chain of calls that decided how long the batch took.'),
  slackMs: z
    .array(z.number())
    .describe('In the order of the calls: by how much later each could have ended without the batch ending later.'),
  maxParallelism: count(),
});

export const batchEstimate = z.strictObject({
  levels: z.array(texts()),
  maxParallelism: count(),
  criticalPath: texts(),
  estimatedMs: z.number().optional(),
  sequentialMs: z.number().optional(),
  calls: z.array(
    z.strictObject({
      id: z.string(),
      tool: z.string(),
      level: count(),
      dependsOn: texts(),
      estimatedMs: z.number().optional(),
      slackMs: z.number().optional(),
    }),
  ),
});

/** The data of a shape, which nobody changes. */
export type Read<T> = T extends (infer I)[]
  ? readonly Read<I>[]
  : T extends object
    ? { readonly [K in keyof T]: Read<T[K]> }
    : T;

/** Says that a principal has had a result that strangers wrote. */
export const untrustedMark = z.strictObject({
  principal: z.string(),
  workspace: z.string(),
  at: z.iso.datetime(),
  callId: z.string().describe('The first call whose result strangers wrote.'),
  tool: z.string(),
});
