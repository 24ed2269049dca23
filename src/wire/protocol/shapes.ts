/**
 * zod schemas of the types in docs/protocol.md that answers and notifications consist of. The daemon does not check its own answers with
 * them: they generate dist/protocol.schema.json, and tests check a real daemon's answers against them.
 */
import * as z from 'zod';
import { denial, STAGES, TIERS, withheldPaths } from '../../base/call.ts';
import { commandPreview } from '../../base/preview.ts';
import { batchMetadata, effect, fileChange, notKept, resources, undo, wireError } from '../../base/result-shapes.ts';
import { doorTarget, grant, level } from './grant-shape.ts';
import { movedPaths } from './quarantine-shapes.ts';

export { batchEstimate, commitResult, undoResult, untrustedMark } from '../../base/result-shapes.ts';
export { effect, grant, undo, wireError };

/** ISO 8601. */
const moment = () => z.iso.datetime();
const count = () => z.int().nonnegative();
const texts = () => z.array(z.string());

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

/** A found call; if only its output or its undo journal is known, it has nothing but its ids. */
export const foundCall = callRecord.partial({ tool: true, createdAt: true, state: true });

/** A running call, as reported to an operator about all sessions. */
export const runningCall = callRecord.omit({ result: true }).extend({
  workspace: z.string(),
  principal: z.string(),
  client: z.string(),
  effects: z.array(effect),
});

/** A call in the list of all sessions: running, or ended and still remembered. */
export const listedCall = runningCall.extend({
  summary: z.string().describe('What it is about: a command, a path, an address; at most 200 characters.'),
  tier: tier.optional(),
  parentCallId: z.string().optional().describe('The call whose program or sub-agent made it.'),
  durationMs: z.number().optional(),
  code: z.string().optional().describe('Of its error, if it failed.'),
  exitCode: z.int().optional().describe('Of its command, unless it is 0.'),
});

export const batchResult = z.strictObject({
  success: z.boolean(),
  results: z.array(toolResult).describe('In the order of the calls.'),
  metadata: batchMetadata,
  error: wireError.optional().describe('Why nothing ran.'),
});

/** A batch that runs or has ended, as operators see it. */
export const listedBatch = z.strictObject({
  batchId: z.string(),
  sessionId: z.string(),
  client: z.string(),
  principal: z.string(),
  workspace: z.string(),
  startedAt: moment(),
  durationMs: z.number().describe('So far, if it runs.'),
  running: z.boolean(),
  totalCalls: count(),
  endedCalls: count(),
  failedCalls: count(),
});

export const watchedBatch = listedBatch.extend({
  criticalPath: texts().describe('The longest chain; while the batch runs, by how long such calls usually take.'),
  estimatedMs: z.number().optional().describe('By how long such calls took before the batch began.'),
  calls: z.array(
    z.strictObject({
      id: z.string(),
      tool: z.string(),
      callId: z.string().optional().describe('Absent before it begins.'),
      level: count(),
      dependsOn: texts(),
      status: callStatus.optional().describe('Absent while it waits for other calls, and if it never began.'),
      startMs: z.number().optional().describe('Since the batch began.'),
      endMs: z.number().optional(),
      estimatedMs: z.number().optional(),
      slackMs: z.number(),
      code: z.string().optional().describe('Of its error, if it failed.'),
    }),
  ),
});

const shownEffect = effect.extend({ replaces: z.literal(true).optional().describe('Set if a file is there.') });

/** The parts of a question that may be long. */
export const wholeQuestion = z.strictObject({
  input: z.unknown().describe('Without secrets.'),
  effects: z.array(shownEffect).describe('Those that destroy most come first.'),
  diff: z.string().optional(),
});

export const approval = z.strictObject({
  approvalId: z.string(),
  callId: z.string(),
  sessionId: z.string(),
  principal: z.string(),
  client: z.string().describe('Name and version that the agent gave.'),
  parents: z.array(z.strictObject({ callId: z.string(), tool: z.string() })).describe('The outermost call first.'),
  workspace: z.string(),
  cwd: z.string().describe('Relative to the workspace.'),
  tool: z.string(),
  input: z.unknown().describe('Without secrets; long texts are cut.'),
  effects: z.array(shownEffect),
  impact: z.strictObject({ level, description: z.string(), warnings: texts() }),
  costUsd: z.number().optional(),
  estimatedMs: z.number().optional().describe('How long calls of the tool took on average in the last day.'),
  diff: z.string().optional(),
  truncated: z.literal(true).optional().describe('Set if parts were cut; `approvals.get` has them.'),
  undo: undo.optional().describe('Absent if the call changes nothing.'),
  rememberMaxMs: count().describe('0 forbids remembering.'),
  rule: z.string(),
  reason: z.string(),
  requestedAt: moment(),
  expiresAt: moment(),
  digest: z.string().describe('Changes with anything that is shown.'),
  door: doorTarget
    .extend({ program: z.string().optional().describe('Path of the executable.') })
    .optional()
    .describe('What a running call waits for.'),
  project: z.string().optional().describe('The workspace, if an answer may be remembered for it.'),
  remember: z
    .strictObject({ exact: z.string().optional(), tool: z.string().optional(), door: z.string().optional() })
    .optional()
    .describe('What a remembered approval would cover, in words.'),
});

export const explanation = z.strictObject({
  decision,
  effects: z.array(effect),
  rules: z
    .array(z.strictObject({ id: z.string(), decision, reason: z.string(), source: z.string() }))
    .describe('The strictest rule first.'),
  suggestion: z.string().optional(),
  rule: z.string().optional().describe('A rule in YAML that would allow the call, where only its tier does not.'),
  denied: z
    .array(denial)
    .optional()
    .describe('The first 64 targets that the policy denies, if the call would run without them.'),
  doors: z
    .array(z.strictObject({ target: z.string(), decision }))
    .optional()
    .describe(
      'For a command: the hosts that its words point to, and what happens when it connects there from its sandbox.',
    ),
});

export const auditEntry = z.strictObject({
  seq: count().describe('Counts the entries of the audit log from 1, without gaps, across sessions and restarts.'),
  at: moment(),
  kind: z.enum(['session', 'intent', 'outcome', 'refusal', 'approval', 'policy']),
  sessionId: z.string(),
  principal: z.string(),
  callId: z.string().optional(),
  tool: z.string().optional(),
  input: z.unknown().optional(),
  effects: z.array(effect).optional(),
  decision: decision.optional(),
  rule: z.string().optional(),
  code: z.string().optional(),
  durationMs: z.number().optional(),
  resources: resources.optional(),
  detail: z.record(z.string(), z.unknown()).optional(),
  previousHash: z.string(),
  hash: z.string(),
  outcome: z.literal('unknown').optional().describe('Set on an intent if the daemon ended before its outcome.'),
});

const jsonSchema = z.record(z.string(), z.unknown());
const annotations = z.strictObject({
  readOnlyHint: z.boolean(),
  destructiveHint: z.boolean(),
  idempotentHint: z.boolean(),
  openWorldHint: z.boolean(),
});

/** Whether a tool can work on this machine, and why not. */
export const health = z.strictObject({ ok: z.boolean(), message: z.string().optional() });

/** Facts about a tool; later versions may add members. */
export const toolInfo = z.looseObject({
  name: z.string(),
  title: z.string(),
  description: z.string(),
  category: z.string(),
  tier,
  version: z.string(),
  inputSchema: jsonSchema,
  outputSchema: jsonSchema.optional(),
  annotations,
  aliases: texts(),
  decision,
  capabilities: z.array(z.strictObject({ action: z.string(), description: z.string() })),
  dependencies: texts().describe('Tools that are usually called before this one.'),
  allDependencies: texts().describe('Those, with the built-in tools before them in turn.'),
  requiresConfirmation: z
    .boolean()
    .describe('Whether a person is asked about calls, as far as is known without input.'),
  cacheable: z.boolean(),
  retries: count().optional().describe('Further attempts after the answer of a busy server, if the caller says none.'),
  estimatedTime: z
    .number()
    .optional()
    .describe('Milliseconds within which half of the calls of the last day ended; with `estimates`.'),
  documentation: z.string().optional().describe('URL of its reference; for built-in tools.'),
  auth: z
    .strictObject({
      type: z.enum(['api_key', 'basic_auth', 'bearer_token', 'oauth']),
      required: z.literal(true),
      configKey: z.string().describe('Name of the secret that a person sets.'),
      setupUrl: z.string().optional().describe('Where a person gets it.'),
      status: z.enum(['configured', 'missing']),
    })
    .optional()
    .describe('For tools of services that want credentials; no agent sees them.'),
  cost: z
    .strictObject({
      model: z.enum(['free', 'usage_based']),
      estimatedCost: z.number().optional().describe('US dollars a call, without what depends on its input.'),
      billingUrl: z.string().optional().describe('Where a person sees the charges.'),
      freeTierLimit: z.number().optional().describe('Calls a month that are free.'),
    })
    .optional()
    .describe('For tools of services.'),
  health: health.optional().describe('Why calls of this tool would fail on this machine, if known.'),
});

/** Samples of one metric; `suffix` is the part of a histogram's sample. */
export const metricFamily = z.strictObject({
  name: z.string(),
  type: z.enum(['counter', 'gauge', 'histogram']),
  help: z.string(),
  samples: z.array(
    z.strictObject({
      suffix: z.string().optional(),
      labels: z.record(z.string(), z.string()).optional(),
      value: z.number(),
    }),
  ),
});

export const provider = z.looseObject({
  name: z.string(),
  kind: z.enum(['stdio', 'http']),
  tier,
  state: z.enum(['starting', 'ready', 'idle', 'waiting', 'stopped']),
  pending: count(),
  restarts: count(),
  tools: z.array(
    z.looseObject({
      name: z.string().optional(),
      tool: z.string(),
      state: z.enum(['accepted', 'changed', 'new', 'gone', 'denied', 'refused']),
    }),
  ),
});
