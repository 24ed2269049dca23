/** zod schemas of the requests in docs/protocol-reference.md, which define their shapes. */
import * as z from 'zod';

const id = () => z.string().min(1).max(128);
/** A name that a person gives a point of a workspace. */
const checkpoint = () => z.string().regex(/^[\w.-]{1,64}$/);
const path = () => z.string().min(1).max(4096);

const callOptions = z
  .strictObject({
    callId: id().optional(),
    timeoutMs: z.int().min(1).max(86_400_000).optional(),
    cache: z.boolean().optional(),
    progress: z.boolean().optional(),
    retries: z.int().min(0).max(100).optional(),
    preview: z.boolean().optional(),
    detached: z.boolean().optional(),
  })
  .default({});

/** `traceparent` and `tracestate` of W3C Trace Context, under the same names as in MCP; other keys are ignored. */
const meta = z.looseObject({}).optional();

/** An id that a reference can name. */
const batchId = () => id().regex(/^[^\s.${}[\]]+$/, 'takes no spaces, dots, brackets, braces or dollar signs');

const USUAL_KEYS: ReadonlyMap<string, string> = new Map([
  ['toolName', 'tool'],
  ['parameters', 'input'],
]);

/** Other names of a batch's members: `toolName` is `tool`, `parameters` is `input`. Both names at once are refused as unknown keys. */
export function withUsualKeys(call: unknown): unknown {
  if (typeof call !== 'object' || call === null || Array.isArray(call)) return call;
  const toOwn = (key: string) => {
    const own = USUAL_KEYS.get(key);
    return own === undefined || own in call ? key : own;
  };
  return Object.fromEntries(Object.entries(call).map(([key, value]) => [toOwn(key), value]));
}

const nothing = () => z.strictObject({}).prefault({});
/** ISO 8601, or an age such as `30d`, `12h`. */
const time = () => z.string().min(1).max(64);

const status = z.enum(['queued', 'blocked-on-user', 'in-progress', 'done', 'error', 'cancelled', 'rejected-by-user']);

export const TOPICS = ['calls', 'approvals', 'audit', 'policy'] as const;
export type Topic = (typeof TOPICS)[number];

export const params = {
  hello: z.strictObject({
    protocol: z.int(),
    client: z.strictObject({ name: z.string().min(1).max(128), version: z.string().min(1).max(64) }),
    workspace: path().optional(),
    token: z.string().min(1).max(512).optional(),
    role: z.enum(['agent', 'operator']).default('agent'),
    policy: z.string().min(1).max(128).optional(),
    mode: z.string().min(1).max(64).optional(),
    sessionName: z
      .string()
      .regex(/^[\w.:@-]{1,128}$/)
      .optional(),
    resumeMs: z.int().min(0).max(86_400_000).default(0),
    resume: z.strictObject({ sessionId: id(), secret: z.string().min(1).max(512) }).optional(),
  }),
  'sessions.attenuate': z.strictObject({
    tools: z.array(z.string().min(1).max(128)).min(1).max(256).optional(),
    policy: z.string().min(1).max(128).optional(),
    mode: z.string().min(1).max(64).optional(),
    budget: z
      .strictObject({
        usd: z.number().min(0).max(1_000_000).optional(),
        tokens: z.int().min(0).max(1_000_000_000).optional(),
        calls: z.int().min(0).max(1_000_000).optional(),
        ms: z.int().min(1).max(86_400_000).optional(),
      })
      .optional(),
    expiresIn: z.int().min(1).max(86_400_000),
  }),
  'sessions.revoke': z.strictObject({ id: id() }),
  'tasks.list': z.strictObject({ limit: z.int().min(1).max(200).default(50) }).prefault({}),
  'tasks.show': z.strictObject({ taskId: id() }),
  'tasks.cancel': z.strictObject({ taskId: id() }),
  'tools.list': z
    .strictObject({
      tier: z.enum(['read_only', 'write', 'execute', 'external_api']).optional(),
      category: z.string().max(64).optional(),
      format: z.enum(['ringfence', 'mcp', 'openai', 'openai-chat', 'anthropic']).default('ringfence'),
      tools: z.enum(['default', 'all']).default('default'),
      /** Whether the usual times of calls are told, too, from the record of the last day. */
      estimates: z.boolean().default(false),
    })
    .prefault({}),
  'tools.search': z.strictObject({
    query: z.string().min(1).max(256),
    category: z.string().max(64).optional(),
  }),
  'tools.stats': z
    .strictObject({
      /** How far back calls are counted. */
      hours: z.int().min(1).max(744).default(24),
      /** Count the calls of this tool only. */
      tool: z.string().min(1).max(128).optional(),
    })
    .prefault({}),
  'tools.call': z.strictObject({
    tool: z.string().min(1).max(128),
    input: z.unknown(),
    options: callOptions,
    _meta: meta,
  }),
  'tools.batch': z.strictObject({
    calls: z
      .array(
        z.preprocess(
          withUsualKeys,
          z.strictObject({
            id: batchId(),
            tool: z.string().min(1).max(128),
            input: z.unknown(),
            dependsOn: z.array(z.string().max(128)).max(1000).optional(),
            options: callOptions.optional(),
          }),
        ),
      )
      .min(1),
    options: z
      .strictObject({
        failFast: z.boolean().optional(),
        concurrency: z.int().min(1).max(1000).optional(),
        timeoutMs: z.int().min(1).max(86_400_000).optional(),
        batchId: id().optional(),
        progress: z.boolean().optional(),
        plan: z.boolean().optional(),
      })
      .default({}),
    _meta: meta,
  }),
  'batches.list': nothing(),
  'batches.get': z.strictObject({ batchId: id(), session: id().optional() }),
  'calls.cancel': z.strictObject({ callId: id(), park: z.boolean().optional(), session: id().optional() }),
  'calls.find': z.strictObject({ id: id(), results: z.boolean().default(false) }),
  'calls.undo': z.union([
    z.strictObject({ callId: id(), session: id().optional(), force: z.boolean().default(false) }),
    z.strictObject({ last: z.literal(true), force: z.boolean().default(false) }),
  ]),
  'checkpoints.list': nothing(),
  'checkpoints.name': z.strictObject({ name: checkpoint() }),
  'checkpoints.diff': z.strictObject({ name: checkpoint(), session: id().optional() }),
  'checkpoints.return': z.strictObject({
    name: checkpoint(),
    session: id().optional(),
    force: z.boolean().default(false),
  }),
  'calls.diff': z.strictObject({ previewId: id(), path: z.string().min(1).max(4096) }),
  'calls.commit': z.strictObject({
    previewId: id(),
    paths: z.array(z.string().min(1).max(4096)).min(1).max(1000).optional(),
    force: z.boolean().default(false),
  }),
  'calls.discard': z.strictObject({ previewId: id() }),
  'background.list': nothing(),
  'forward.open': z.strictObject({ callId: id(), port: z.int().min(1).max(65_535) }),
  'forward.wait': z.strictObject({ forwardId: id() }),
  'calls.get': z.strictObject({ callId: id(), session: id().optional() }),
  'calls.list': z
    .strictObject({
      status: status.optional(),
      tool: z.string().max(128).optional(),
      limit: z.int().min(1).max(1000).default(100),
      cursor: id().optional(),
      everywhere: z.boolean().optional(),
      ended: z.boolean().optional(),
    })
    .prefault({}),
  'results.read': z.union([
    z.strictObject({
      ref: id(),
      offset: z.int().min(0).default(0),
      limit: z.int().min(1).default(65_536),
    }),
    z.strictObject({
      callId: id(),
      session: id().optional(),
      afterSeq: z.int().min(0),
      waitMs: z.int().min(0).default(0),
    }),
  ]),
  'events.subscribe': z.strictObject({
    topics: z.array(z.enum(TOPICS)).min(1).max(TOPICS.length),
    afterSeq: z.int().min(0).optional(),
    everyMs: z.int().min(1).max(1000).optional(),
  }),
  'approvals.list': nothing(),
  'approvals.get': z.strictObject({ approvalId: id() }),
  'approvals.resolve': z.strictObject({
    approvalId: id(),
    decision: z.enum(['approve', 'deny']),
    digest: z.string().max(128).optional(),
    feedback: z.string().max(4096).optional(),
    /** For whom a program answers, for the record. */
    onBehalfOf: z.string().min(1).max(128).optional(),
    remember: z
      .strictObject({
        scope: z.enum(['session', 'project', 'always']),
        match: z.enum(['exact', 'tool', 'rule', 'door']),
        expiresMs: z.int().min(1).max(28_800_000).optional(),
      })
      .optional(),
  }),
  'approvals.grants': nothing(),
  'approvals.revoke': z.union([z.strictObject({ grantId: id() }), z.strictObject({ all: z.literal(true) })]),
  /** Marks of `session.sawUntrusted`; `clear` takes the ones away that are asked for. */
  'approvals.untrusted': z
    .strictObject({
      clear: z.boolean().default(false),
      principal: z.string().max(256).optional(),
      workspace: path().optional(),
    })
    .prefault({}),
  'audit.query': z
    .strictObject({
      tool: z.string().max(128).optional(),
      session: id().optional(),
      callId: id().optional(),
      kind: z.enum(['session', 'intent', 'outcome', 'refusal', 'approval', 'policy']).optional(),
      calls: z.boolean().optional(),
      callIdPart: id().optional(),
      text: z.string().min(1).max(256).optional(),
      success: z.boolean().optional(),
      unknown: z.boolean().optional(),
      since: time().optional(),
      until: time().optional(),
      order: z.enum(['newest', 'oldest']).optional(),
      limit: z.int().min(1).max(1000).default(100),
      cursor: z.string().max(64).optional(),
    })
    .prefault({}),
  'audit.daily': z.strictObject({ days: z.int().min(1).max(3660).default(30) }).prefault({}),
  'audit.verify': nothing(),
  'audit.prune': z.union([
    z.strictObject({ olderThan: z.string().min(2).max(16) }),
    z.strictObject({ keep: z.int().min(1) }),
  ]),
  'policy.get': nothing(),
  'policy.explain': z.strictObject({
    tool: z.string().min(1).max(128),
    input: z.unknown(),
    /** Whether to decide as for a session that has got a result that strangers wrote; else as for this session. */
    sawUntrusted: z.boolean().optional(),
  }),
  'policy.backtest': z.strictObject({
    policy: z.string().min(1),
    since: time().default('7d'),
  }),
  /** Without `seen`, the diff that was shown, the change is only shown. */
  'policy.set': z.strictObject({
    tool: z.string().min(1).max(128),
    level: z.enum(['auto', 'ask', 'deny', 'default']),
    seen: z.string().max(262_144).optional(),
  }),
  'policy.reload': nothing(),
  'providers.list': nothing(),
  'providers.accept': z.strictObject({
    provider: z.string().min(1).max(64),
    tools: z.record(z.string().min(1).max(128), z.string().min(1).max(128)),
  }),
  'plugins.save': z.strictObject({ name: z.string().min(1).max(24), composed: z.unknown() }),
  'plugins.remove': z.strictObject({ name: z.string().min(1).max(24) }),
  'tokens.rotate': z.strictObject({ names: z.array(z.string().min(1).max(64)).max(66).default([]) }).prefault({}),
  'cache.clear': nothing(),
  'costs.read': z.strictObject({ days: z.int().min(1).max(3660).default(30) }).prefault({}),
  'metrics.read': z.strictObject({ format: z.enum(['text', 'json']).default('text') }).prefault({}),
  status: z.strictObject({ health: z.boolean().optional() }).prefault({}),
  'gateway.pause': z.strictObject({ cancel: z.boolean().default(false), session: id().optional() }).prefault({}),
  'gateway.resume': z.strictObject({ session: id().optional() }).prefault({}),
  'fleet.admit': z
    .strictObject({ workspace: path().optional(), node: z.string().min(1).max(64).optional() })
    .prefault({}),
  'fleet.confirm': z.strictObject({
    id: id(),
    epoch: z.int().min(1),
    confirmedAtMs: z.number().min(0),
    notAfterMs: z.number().min(0),
  }),
  'fleet.close': z.strictObject({ id: id() }),
  'fleet.ready': z.strictObject({ id: id() }),
  'workspaces.collect': z
    .strictObject({
      as: z.enum(['bundle', 'patch', 'push']).default('bundle'),
      branch: z.string().min(1).max(128).optional(),
    })
    .prefault({}),
  'workspaces.read': z.strictObject({ offset: z.int().min(0), limit: z.int().min(1).optional() }),
  'workspaces.upload': z.strictObject({
    offset: z.int().min(0),
    /** Bytes, or base64 in the JSON subprotocol. */
    data: z.union([z.instanceof(Uint8Array), z.base64()]),
  }),
  'workspaces.unpack': z.strictObject({
    commit: z.string().regex(/^[0-9a-f]{40}$/, 'must be all 40 digits of a commit'),
  }),
  /** `keep` puts moved paths back, `drop` removes them; without either they are listed. */
  'session.quarantine': z
    .strictObject({ keep: z.array(path()).max(1000).optional(), drop: z.array(path()).max(1000).optional() })
    .prefault({}),
  'panel.open': z
    .strictObject({ port: z.int().min(1).max(65_535).optional(), host: z.literal('127.0.0.1').optional() })
    .prefault({}),
  'panel.sessions': nothing(),
  'settings.read': nothing(),
  'panel.revoke': z.strictObject({ id: id() }),
  shutdown: z.strictObject({ graceMs: z.int().min(0).max(600_000).optional() }).prefault({}),
  upgrade: z.strictObject({ drainMs: z.int().min(0).max(86_400_000).optional() }).prefault({}),
} as const;

export type Method = keyof typeof params;
export type Params<M extends Method> = z.output<(typeof params)[M]>;
