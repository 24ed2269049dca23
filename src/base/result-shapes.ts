/** zod schemas of what became of calls, batches and undos, and their types: docs/protocol-reference.md has both. */
import * as z from 'zod';
import { CATEGORIES, CODES, LAYERS } from './errors.ts';
import { commandPreview } from './preview.ts';

export const count = () => z.int().nonnegative();
export const texts = () => z.array(z.string());
/** ISO 8601. */
export const moment = () => z.iso.datetime();

export const TIERS = ['read_only', 'write', 'execute', 'external_api'] as const;
/** The stages of a call, in order: judged, asked about, waiting for a slot, starting, running, being settled. */
export const STAGES = ['waiting', 'asking', 'queued', 'starting', 'running', 'settling'] as const;

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

/** An access that was denied to a call, as reported by the layer that denied it (kernel, proxy, mount), never by the program. */
export const denial = z.strictObject({
  kind: z.enum(['read', 'write', 'connect', 'syscall']),
  /** A path relative to the workspace, `host:port`, a system call, or a part of the machine. */
  target: z.string().max(4096),
  /** The rule or key of the policy that denied it, if one did. */
  rule: z.string().max(256).optional(),
  layer: z.enum(LAYERS),
  reason: z.string().max(1024).optional(),
  /** The entry of the policy, or the command, that opens it. */
  open: z.string().max(512).optional(),
  /** What to ask the person for. */
  suggestion: z.string().max(1024).optional(),
  /** How often, if known. */
  count: z.int().min(1).optional(),
});
const hiddenPath = z.strictObject({
  path: z.string().max(4096),
  rule: z.string().max(256).optional(),
  /** The call that asks a person to show it; set if the command named it. */
  open: z.string().max(8192).optional(),
});

/**
 * Paths, relative to the workspace, that the sandbox kept from a command: the first 20 of each kind, those that it named first.
 * `absent`: paths outside of the workspace that it named and did not find.
 */
export const withheldPaths = z.strictObject({
  hidden: z.array(hiddenPath).max(20),
  absent: z.array(z.string().max(4096)).max(5).optional(),
  /** Number of hidden paths, listed or not. */
  count: z.int().min(0),
  readOnly: z.array(z.string().max(4096)).max(20),
});
export const movedPaths = z
  .array(z.strictObject({ path: z.string(), approvalId: z.string().optional() }))
  .describe('What a command left at names that programs of the person run: moved away, and asked about.');

export const tier = z.enum(TIERS);
export const decision = z.enum(['allow', 'ask', 'deny']);
export const resultMetadata = z.strictObject({
  durationMs: z.number(),
  queuedMs: z.number(),
  cached: z.boolean(),
  retriesAttempted: count(),
  approvalGranted: z.boolean().optional().describe('Whether a person approved; absent if nobody was asked.'),
  timestamp: moment().describe('When the call arrived.'),
  tier: tier.optional(),
  hostPid: z.int().optional(),
  truncated: z.strictObject({ bytesTotal: z.number(), ref: z.string().optional() }).optional(),
  filesChanged: z.array(fileChange).optional(),
  filesChangedTotal: count().optional(),
  denied: z.array(denial).optional(),
  sent: z.array(z.strictObject({ host: z.string(), bytes: count() })).optional(),
  waitedMs: count().optional().describe('For a person, at a door: no limit counts it.'),
  withheld: withheldPaths
    .extend({
      network: z.union([z.literal('none'), texts()]),
      unixSockets: z.enum(['own', 'none']),
      absent: z.array(z.strictObject({ path: z.string(), open: z.string() })).optional(),
    })
    .optional(),
  quarantined: movedPaths.optional(),
  undo,
  undoMissing: z.array(notKept).optional().describe('What a command changed that can not be undone, and why.'),
  undoMissingTotal: count().optional(),
  resources,
  costUsd: z.number().optional(),
  warnings: texts().optional(),
});

const ofCall = { callId: z.string(), tool: z.string(), metadata: resultMetadata };
export const toolResult = z.discriminatedUnion('success', [
  z.strictObject({ ...ofCall, success: z.literal(true), data: z.unknown(), preview: commandPreview.optional() }),
  z.strictObject({ ...ofCall, success: z.literal(false), error: wireError }),
]);

export const callStatus = z.enum([
  ...(['queued', 'blocked-on-user', 'in-progress', 'done', 'error', 'cancelled', 'rejected-by-user'] as const),
]);

export const callState = z.discriminatedUnion('status', [
  z.strictObject({ status: z.literal('queued'), position: count() }),
  z.strictObject({ status: z.literal('blocked-on-user'), approvalId: z.string() }),
  z.strictObject({ status: z.literal('in-progress'), startedAt: moment(), progress: z.unknown().optional() }),
  ...(['done', 'error', 'cancelled', 'rejected-by-user'] as const).map((it) =>
    z.strictObject({ status: z.literal(it) }),
  ),
]);

export const callRecord = z.strictObject({
  callId: z.string(),
  tool: z.string(),
  sessionId: z.string(),
  createdAt: moment(),
  state: callState,
  stagesMs: z.partialRecord(z.enum(STAGES), z.number()).optional().describe('Milliseconds in each stage so far.'),
  result: toolResult.optional(),
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

export const batchResult = z.strictObject({
  success: z.boolean(),
  results: z.array(toolResult).describe('In the order of the calls.'),
  metadata: batchMetadata,
  error: wireError.optional().describe('Why nothing ran.'),
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
