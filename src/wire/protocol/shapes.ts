/**
 * zod schemas of the types in docs/protocol.md that answers and notifications consist of. The daemon does not check its own answers with
 * them: they generate dist/protocol.schema.json, and tests check a real daemon's answers against them.
 */
import * as z from 'zod';
import {
  callRecord,
  callState,
  callStatus,
  count,
  decision,
  denial,
  effect,
  moment,
  texts,
  tier,
  toolResult,
  undo,
  wireError,
} from '../../base/result-shapes.ts';
import { approval, grant, wholeQuestion } from '../../store/approvals/shapes.ts';
import { auditEntry } from '../../store/audit/shapes.ts';
import { metricFamily } from '../../store/telemetry/families.ts';

export {
  batchEstimate,
  batchResult,
  commitResult,
  resultMetadata,
  undoResult,
  untrustedMark,
} from '../../base/result-shapes.ts';
export {
  approval,
  auditEntry,
  callRecord,
  callState,
  callStatus,
  decision,
  effect,
  grant,
  metricFamily,
  tier,
  toolResult,
  undo,
  wholeQuestion,
  wireError,
};

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
  majors: z
    .array(count())
    .optional()
    .describe('Versions that can be called as `name@major`, the newest first; the bare name is the newest.'),
  deprecated: z.strictObject({ replacement: z.string().optional(), reason: z.string().optional() }).optional(),
  health: health.optional().describe('Why calls of this tool would fail on this machine, if known.'),
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
