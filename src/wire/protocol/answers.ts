/** zod schemas of the answer to each method and of each notification; see shapes.ts for how they are used. */
import * as z from 'zod';
import { previewChange } from '../../base/preview.ts';
import { count, texts } from '../../base/result-shapes.ts';
import { callDay, toolUsage, verification } from '../../store/audit/shapes.ts';
import { listedTask, shownTask } from '../../store/task-shapes.ts';
import type { Method } from './messages.ts';
import { quarantineAnswer } from './quarantine-shapes.ts';
import * as shapes from './shapes.ts';

/** Remembered answers of one decision. */
const remembered = z.strictObject({ count: count(), tools: texts() });
const bytes = () => z.instanceof(Uint8Array).describe('MessagePack: bin. In the JSON subprotocol: base64.');
/** An object that gains members from version to version; readers ignore what they do not know. */
const open = z.looseObject;

const cut = z
  .enum(['size', 'disk', 'crash'])
  .optional()
  .describe('Why the output was not kept up to the end of the call.');
const stream = z.enum(['stdout', 'stderr']);

const paused = z.strictObject({ at: z.iso.datetime(), by: z.string() });

export const answers = {
  hello: z.strictObject({
    protocol: z.literal(1),
    server: z.strictObject({ name: z.string(), version: z.string() }),
    session: z.strictObject({
      id: z.string(),
      secret: z.string(),
      role: z.enum(['agent', 'operator']),
      workspace: z.string(),
      node: z.string().optional().describe('The node of a fleet on which a gateway has placed the session.'),
      policy: z.string(),
      mode: z.string().optional(),
      toolset: texts(),
      resumeMs: count(),
      resumed: z.strictObject({ notices: count(), dropped: count(), subscriptions: count() }).optional(),
      placed: z
        .strictObject({
          name: z.string().describe('Opens the workspace again, as `hello.workspace`.'),
          branch: z.string().describe('The branch on which the session works.'),
          keptMs: count().describe(
            'How long the workspace is kept after the session, if its changes were not collected.',
          ),
        })
        .optional()
        .describe('Set where a fleet has made the workspace for the session.'),
    }),
    confinement: z.strictObject({
      level: z.enum(['A', 'B', 'C', 'none']),
      backend: z.string(),
      cgroup: z.string(),
      missing: texts(),
      unixSockets: z.enum(['own', 'none']),
    }),
    limits: z.record(z.string(), z.unknown()),
  }),
  'tools.list': z.strictObject({ tools: z.array(open({ name: z.string().optional() })) }),
  'tools.search': z.strictObject({
    tools: z.array(z.strictObject({ name: z.string(), summary: z.string(), why: z.string().optional() })),
    total: count(),
  }),
  'tools.stats': z.strictObject({
    totalTools: count(),
    requireApproval: count(),
    cacheable: count(),
    byCategory: z.record(z.string(), count()),
    byTier: z.record(z.string(), count()),
    usage: toolUsage,
  }),
  'sessions.attenuate': z.strictObject({ token: z.string(), id: z.string(), expiresAt: z.iso.datetime() }),
  'sessions.revoke': z.strictObject({ revoked: z.boolean() }),
  'tasks.list': z.strictObject({ tasks: z.array(listedTask) }),
  'tasks.show': shownTask,
  'tasks.cancel': z.strictObject({ cancelled: z.boolean() }),
  'tools.call': shapes.toolResult,
  'tools.batch': z.union([shapes.batchResult, shapes.batchEstimate]),
  'batches.list': z.strictObject({ batches: z.array(shapes.listedBatch) }),
  'batches.get': shapes.watchedBatch,
  'calls.cancel': z.strictObject({ cancelled: z.boolean() }),
  'calls.find': z.strictObject({ calls: z.array(shapes.foundCall) }),
  'calls.undo': shapes.undoResult,
  'checkpoints.list': z.strictObject({
    checkpoints: z.array(
      z.strictObject({
        name: z.string(),
        at: z.iso.datetime(),
        principal: z.string(),
        calls: count().describe('Calls that changed the workspace since.'),
      }),
    ),
  }),
  'checkpoints.name': z.strictObject({
    name: z.string(),
    at: z.iso.datetime(),
    replaced: z.boolean().describe('Whether the name stood for another point before.'),
  }),
  'checkpoints.diff': z.strictObject({
    name: z.string(),
    at: z.iso.datetime(),
    calls: z.array(
      z.strictObject({ callId: z.string(), sessionId: z.string(), at: z.iso.datetime(), undo: shapes.undo }),
    ),
    paths: texts(),
    pathsTotal: count(),
  }),
  'checkpoints.return': shapes.undoResult.extend({
    calls: texts().describe('The calls that were undone, the newest first.'),
    incomplete: texts().describe('Those of them of which only a part was kept.'),
  }),
  'session.quarantine': quarantineAnswer,
  'calls.diff': z.union([previewChange, z.strictObject({ path: z.string(), error: shapes.wireError })]),
  'calls.commit': shapes.commitResult,
  'calls.discard': z.strictObject({ discarded: z.literal(true) }),
  'calls.get': shapes.callRecord,
  'background.list': z.strictObject({
    commands: z.array(
      z.strictObject({
        callId: z.string(),
        handle: z.string(),
        sessionId: z.string(),
        principal: z.string(),
        client: z.string(),
        workspace: z.string(),
        command: z.string(),
        startedAt: z.iso.datetime(),
        exited: z.boolean(),
        detached: z.boolean(),
        network: z.boolean(),
        ports: z.array(count()),
      }),
    ),
  }),
  'forward.open': z.strictObject({
    forwardId: z.string(),
    path: z.string(),
    callId: z.string(),
    handle: z.string(),
    command: z.string(),
    ports: z.array(count()),
  }),
  'forward.wait': z.strictObject({ reason: z.string() }),
  'calls.list': z.union([
    z.strictObject({ calls: z.array(shapes.callRecord), cursor: z.string().optional() }),
    z.strictObject({ calls: z.array(shapes.runningCall) }),
    z.strictObject({ calls: z.array(shapes.listedCall) }),
  ]),
  'results.read': z.union([
    z.strictObject({
      ref: z.string(),
      offset: count(),
      data: bytes(),
      bytesTotal: count(),
      eof: z.boolean(),
      cut,
    }),
    z.strictObject({
      callId: z.string(),
      entries: z.array(z.strictObject({ seq: count(), stream, data: bytes() })),
      seq: count(),
      state: shapes.callState.optional(),
      eof: z.boolean(),
      cut,
    }),
  ]),
  'events.subscribe': z.strictObject({ subscription: count(), seq: count() }),
  'approvals.list': z.strictObject({ approvals: z.array(shapes.approval) }),
  'approvals.get': z.strictObject({
    approval: shapes.approval,
    whole: shapes.wholeQuestion,
    proposedRule: z.string().optional().describe('A rule that would allow such calls for good.'),
  }),
  'approvals.resolve': z.strictObject({
    call: shapes.callRecord,
    alsoSettled: texts(),
    grant: shapes.grant.optional(),
    proposedRule: z.string().optional(),
  }),
  'approvals.grants': z.strictObject({
    grants: z.array(shapes.grant),
    statistics: z
      .strictObject({
        approve: remembered,
        deny: remembered,
        questions: z.record(z.string(), count()).describe('Questions that are kept, by what became of them.'),
      })
      .describe('The answers in force, counted.'),
  }),
  'approvals.revoke': z.union([
    z.strictObject({ grant: shapes.grant }),
    z.strictObject({ grants: z.array(shapes.grant) }),
  ]),
  'approvals.untrusted': z.strictObject({ marks: z.array(shapes.untrustedMark) }),
  'audit.query': z.strictObject({ entries: z.array(shapes.auditEntry), cursor: z.string().optional() }),
  'audit.daily': z.strictObject({ days: z.array(callDay).describe('Days that had calls, the newest first.') }),
  'audit.verify': verification,
  'audit.prune': z.strictObject({ dropped: count(), entries: count() }),
  'policy.get': open({ name: z.string(), version: z.string() }),
  'policy.explain': shapes.explanation,
  'policy.backtest': z.strictObject({
    differences: z
      .array(
        z.strictObject({
          at: z.string(),
          tool: z.string(),
          effects: z.string(),
          old: shapes.decision,
          new: shapes.decision,
          rule: z.string(),
          source: z.string(),
        }),
      )
      .describe('Recorded calls that the text would decide otherwise than the policy in force, oldest first.'),
    calls: count(),
    skipped: count().describe('Calls whose input the log has cut or redacted, and those of unknown tools.'),
    cut: z.boolean().describe('Whether there are more entries or differences than are looked at.'),
  }),
  'policy.set': z.strictObject({
    path: z.string(),
    diff: z.string().describe('Empty if the file says so already.'),
    isWritten: z.boolean(),
    isInForce: z.boolean().describe('Whether the daemon reads the file without a restart.'),
  }),
  'policy.reload': z.strictObject({ ok: z.boolean(), problems: texts() }),
  'providers.list': z.strictObject({ providers: z.array(shapes.provider) }),
  'providers.accept': shapes.provider,
  'plugins.save': z.strictObject({ tool: z.string(), version: z.string(), sha256: z.string() }),
  'plugins.remove': z.strictObject({ removed: z.boolean() }),
  'tokens.rotate': z.strictObject({ rotated: texts(), sessionsEnded: count() }),
  'cache.clear': z.strictObject({ entries: count(), bytes: count() }),
  'costs.read': z.strictObject({
    costs: z
      .array(
        z.strictObject({
          day: z.string().describe('UTC, as 2026-01-31.'),
          principal: z.string(),
          tool: z.string(),
          calls: count(),
          usd: z.number().describe('Reserved for calls that still run, else what they cost.'),
        }),
      )
      .describe('The newest day and the greatest cost first.'),
    today: z
      .array(
        z.strictObject({
          tier: z.string(),
          usd: z.number(),
          askAboveUsd: z.number().optional(),
          mostUsd: z.number().optional(),
          mostUsdPerPrincipal: z.number().optional(),
        }),
      )
      .describe("Each tier that has cost something today or has a limit in this session's policy."),
    lost: z
      .strictObject({ calls: count(), usd: z.number() })
      .describe('Calls whose daemon ended before their cost was known: booked as estimated.'),
  }),
  'metrics.read': z.union([
    z.strictObject({ contentType: z.string(), text: z.string() }),
    z.strictObject({ families: z.array(shapes.metricFamily) }),
  ]),
  status: open({
    uptimeMs: count(),
    version: z.string(),
    pid: z.int(),
    rssBytes: count(),
    sessions: count(),
    calls: open({ queued: count(), running: count(), blocked: count() }),
    approvers: count(),
    paused: paused.optional(),
    hosts: z.array(open({ tier: z.string(), workspace: z.string(), pid: z.int() })),
    plugins: z.array(open({ name: z.string(), state: z.string(), tools: texts().optional() })),
    cache: open({}),
    undo: open({ calls: count(), bytes: count() }),
    audit: open({ entries: count(), writable: z.boolean() }),
    warm: texts().optional().describe('Hashes of the repositories that this node of a fleet has a mirror of.'),
    traces: open({
      sent: count(),
      rejected: count(),
      failed: count(),
      dropped: count(),
      queued: count(),
      lastError: open({ at: z.string(), reason: z.string() }).optional(),
    }).optional(),
    listeners: texts(),
    bounds: z
      .record(shapes.tier, z.record(z.string(), z.number()))
      .describe('What a call of each tier may use at most in this session.'),
    confinement: open({ level: z.enum(['A', 'B', 'C', 'none']) }),
    health: z.array(shapes.health.extend({ name: z.string() })).optional(),
  }),
  'gateway.pause': z.strictObject({ paused, cancelled: count() }),
  'gateway.resume': z.strictObject({ wasPaused: z.boolean() }),
  'fleet.admit': z.strictObject({
    token: z.string().describe('Opens one session of the fleet, as `hello.token`.'),
    id: z.string().describe('Names the fence of that session.'),
  }),
  'fleet.confirm': z.strictObject({}),
  'fleet.close': z.strictObject({}),
  'fleet.ready': z.strictObject({ workspace: z.string().describe('The folder that was made.') }),
  'workspaces.collect': z.strictObject({
    changed: z.boolean().describe('Whether anything differs from the commit that the session began with.'),
    base: z.string().describe('That commit.'),
    commit: z.string().describe('All changes: the commits of the session, and one for what it has not committed.'),
    branch: z.string().describe('The branch in the bundle, or the one that was pushed.'),
    files: count().describe('Files that differ.'),
    problems: texts().describe('Files that could not be taken in, as git says it.'),
    bytes: count().optional().describe('Bytes that `workspaces.read` gives.'),
    sha256: z.string().optional(),
    pushedTo: z.string().optional(),
  }),
  'workspaces.read': z.strictObject({ data: bytes(), bytesTotal: count(), eof: z.boolean() }),
  'workspaces.upload': z.strictObject({ bytes: count().describe('Bytes so far; the next piece begins there.') }),
  'workspaces.unpack': z.strictObject({ branch: z.string() }),
  'panel.open': z.strictObject({
    url: z.string().describe('Opens the panel, once and soon; its fragment holds a code.'),
    expiresAt: z.iso.datetime().describe('When the code expires.'),
  }),
  'panel.sessions': z.strictObject({
    sessions: z.array(
      z.strictObject({
        id: z.string(),
        signedInAt: z.iso.datetime(),
        usedAt: z.iso.datetime(),
        connections: count(),
      }),
    ),
  }),
  'settings.read': z.strictObject({
    settings: z.array(z.strictObject({ key: z.string(), value: z.unknown(), from: z.string() })),
    workspaces: z.array(z.strictObject({ path: z.string(), from: z.string() })),
    secrets: z.array(
      z.strictObject({ name: z.string(), place: z.enum(['state', 'command']), hosts: texts().nullable() }),
    ),
  }),
  'panel.revoke': z.strictObject({ revoked: z.boolean() }),
  shutdown: z.strictObject({}),
  upgrade: z.strictObject({
    pid: z.int().describe('Process of the new daemon, which waits for this one to end.'),
    version: z.string().describe('Version of the new daemon.'),
  }),
} as const satisfies Record<Method, z.ZodType>;

/** Methods whose answers gain members from version to version: their readers say which of them they look at. */
type Growing = 'status' | 'tools.list' | 'providers.list' | 'policy.get';

/** The answer to a method. */
export type Answer<M extends string> = M extends Exclude<Method, Growing> ? z.output<(typeof answers)[M]> : unknown;

/** Number of an event, counted over all events of a daemon. */
const eventSeq = count().describe('Counts the events of all sessions, from the start of the daemon.');
/** Number of the notification's event; absent for a recipient without a subscription. */
const seq = eventSeq.optional();

export const notifications = {
  'call.update': z.strictObject({
    callId: z.string(),
    state: shapes.callState,
    seq: eventSeq,
    sessionId: z.string().optional().describe('For subscribers.'),
    tool: z.string().optional().describe('For subscribers.'),
  }),
  'call.output': z.strictObject({
    callId: z.string(),
    stream,
    data: bytes(),
    seq: count().describe('Counts the pieces of output of this call, from 1.'),
  }),
  'batch.update': z.strictObject({ batchId: z.string(), id: z.string(), result: shapes.toolResult }),
  'approval.requested': z.strictObject({ approval: shapes.approval, seq }),
  'approval.resolved': z.strictObject({
    approvalId: z.string(),
    callId: z.string(),
    by: z.string(),
    seq,
    decision: z.enum(['approve', 'deny', 'expired', 'withdrawn']),
  }),
  'audit.appended': z.strictObject({ entry: count().describe('`seq` of the newest entry of the audit log.'), seq }),
  'policy.changed': z.strictObject({ policy: z.string(), version: z.string(), seq }),
  'session.closing': z.strictObject({ reason: z.string() }),
} as const;
