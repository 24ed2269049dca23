// A daemon cut off after each of its layers: one socket per layer, on which calls are answered after they have passed
// that many layers. Takes its folder as argument. Its parts are the daemon's own, in the daemon's order
// (src/pipeline/pipeline.ts).

import { chmodSync } from 'node:fs';
import { join } from 'node:path';
import { defaultLimits, type Limits } from '../../src/base/limits.ts';
import { silentLog, systemPowers } from '../../src/base/powers.ts';
import { egressProgram, hostProgram, version } from '../../src/base/runtime.ts';
import { createRecords } from '../../src/daemon/records.ts';
import { Events } from '../../src/gateway/events.ts';
import { parseParams } from '../../src/gateway/parse-params.ts';
import { Policies } from '../../src/gateway/policies.ts';
import { Session } from '../../src/gateway/session.ts';
import { Egress } from '../../src/hosts/egress.ts';
import { Hosts } from '../../src/hosts/hosts.ts';
import { audit, intent } from '../../src/pipeline/audit.ts';
import { type CachedResult, cache } from '../../src/pipeline/cache.ts';
import { costCap } from '../../src/pipeline/cost-cap.ts';
import { HostDoors } from '../../src/pipeline/doors/host-doors.ts';
import { LocalServices } from '../../src/pipeline/doors/services.ts';
import { BackgroundCommands } from '../../src/pipeline/execute/background/background-commands.ts';
import { execute } from '../../src/pipeline/execute/execute.ts';
import { LearnedTools } from '../../src/pipeline/execute/learned-tools.ts';
import { validate } from '../../src/pipeline/input/validate.ts';
import { succeeded } from '../../src/pipeline/outcome.ts';
import { permission } from '../../src/pipeline/permission.ts';
import { PreparedCalls } from '../../src/pipeline/prepared.ts';
import { WritesByPrincipal } from '../../src/pipeline/principal-writes.ts';
import { FairQueue } from '../../src/pipeline/queue/fair-queue.ts';
import { JudgingTurns } from '../../src/pipeline/queue/judging-turns.ts';
import { lock } from '../../src/pipeline/queue/lock.ts';
import { rateLimit } from '../../src/pipeline/queue/rate-limit.ts';
import { schedule } from '../../src/pipeline/queue/schedule.ts';
import { retry } from '../../src/pipeline/retry.ts';
import { sanitize } from '../../src/pipeline/sanitize.ts';
import type { Call, ClearedCall, Handler, Stage } from '../../src/pipeline/stage.ts';
import { ToolHealth } from '../../src/pipeline/tool-health.ts';
import { BUILT_IN } from '../../src/policy/load.ts';
import { Modes } from '../../src/policy/modes.ts';
import type { Policy } from '../../src/policy/schema.ts';
import { createProgramResolver } from '../../src/policy/shell/programs.ts';
import { createSandbox } from '../../src/sandbox/sandbox.ts';
import { Previews } from '../../src/store/previews.ts';
import { ResultCache } from '../../src/store/result-cache.ts';
import { CallMetrics } from '../../src/store/telemetry/call-metrics.ts';
import { toPackageSettings } from '../../src/tools/package/settings.ts';
import { builtinToolset } from '../../src/tools/registry.ts';
import { Peer } from '../../src/wire/protocol/peer.ts';
import { listenUnix } from '../../src/wire/transport/unix-socket.ts';
import { policyOf } from '../../test/support/policy.ts';
import { builtProgram, builtRuntime } from '../built.ts';
import { LAYERS } from './layers.ts';
import { manyRules } from './rules.ts';

const folder = process.argv[2] as string;
const [stateDir, workspace] = [join(folder, 'state'), join(folder, 'ws')];
chmodSync(stateDir, 0o700);
const limits = defaultLimits;
const powers = systemPowers(silentLog);
const events = new Events(limits.eventsKept);
const { approvals, auditLog, ledger, toolStates, undoJournal } = createRecords({ stateDir, limits, powers, events });
const machine = { arch: process.arch, platform: process.platform, version };
const sandbox = await createSandbox(
  { runtime: builtRuntime, stateDir, workspaces: [workspace], limits, ...machine },
  powers,
);
const hosts = new Hosts({ sandbox, program: builtProgram(hostProgram), limits }, powers);
const egress = new Egress({ sandbox, program: builtProgram(egressProgram), limits }, powers);
const facts = { home: '/home/person', limits: defaultLimits, resolve: createProgramResolver() };
const turns = new JudgingTurns(limits, powers);
const queue = new FairQueue(limits);

/** The result of file_read for 4 KiB. */
const content = `${'x'.repeat(63)}\n`.repeat(64);
const data = { content, lines: 64, size: content.length, encoding: 'utf-8', hash: `sha256:${'0a'.repeat(32)}` };
const resources = { cpuMs: 0, outputBytes: 0, verdict: 'ok', enforcedBy: 'not started' };
const timestamp = new Date(0).toISOString();
const metadata = {
  durationMs: 0.1,
  queuedMs: 0,
  cached: false,
  retriesAttempted: 0,
  timestamp,
  undo: 'none',
  resources,
};
const result = { callId: powers.uuid(), tool: 'file_read', success: true, data, metadata };

function handlerOf({ rules, stages, end, cached = false }: Exclude<(typeof LAYERS)[number], { frames: true }>): {
  policy: Policy;
  run: Handler;
} {
  const policy = policyOf(manyRules(rules));
  const policies = new Policies({
    base: () => policy,
    builtIn: BUILT_IN,
    home: facts.home,
    origin: { from: 'default' },
    ofConfig: () => policy,
    modes: new Modes({}),
    ofProject: () => [],
    onRefused: () => {},
  });
  const viewOf: Policies['viewOf'] = (call) => policies.viewOf(call);
  // With room for one result and two alternating inputs, each call is a miss, and each result is stored.
  const room: Limits = cached ? limits : { ...limits, cacheEntriesMax: 1 };
  const results = new ResultCache<CachedResult>({ strategy: 'lru', limits: room, powers });
  const all: Record<string, Stage<never, Call>[]> = {
    audit: [audit(auditLog, new CallMetrics(limits), powers)],
    limits: [rateLimit(powers, limits), costCap(ledger)],
    validate: [validate({ ...facts, setUpOf: () => undefined })],
    permission: [permission(facts, turns, (it) => it)],
    cache: [cache({ results, limits, viewKeyOf: (call) => viewOf(call).key })],
    // `approve` passes allowed calls without any work.
    lock: [intent(auditLog), retry(limits, powers), lock(limits)],
    queue: [schedule(queue, limits, powers)],
    redaction: [sanitize(limits, powers)],
  };
  const packages = toPackageSettings();
  const runs = { hosts, limits, powers, viewOf };
  const host = execute({
    packages,
    outsideProblem: () => undefined,
    services: new LocalServices({ powers }),
    // The policies of the bench have nobody asked about hosts.
    doors: new HostDoors({
      approvals,
      limits,
      powers,
      approvers: () => 0,
      isImpatient: () => false,
      isOpenIn: () => false,
      redact: (it) => it,
    }),
    prepared: new PreparedCalls({ ...runs, packages }),
    egress,
    remoteKeys: { headersFor: async () => undefined, ofCommands: undefined },
    signingDoor: { ask: async () => undefined, hasTold: () => true, tell: () => [] },
    runners: {},
    hosts,
    limits,
    powers,
    permission: facts,
    toolStates,
    undoJournal,
    previews: new Previews({ stateDir, limits, powers }),
    background: new BackgroundCommands({ hosts, limits, powers, auditLog }),
    leftNames: { ask: () => [], ownerOf: ({ id, sessionId, principal }) => ({ callId: id, sessionId, principal }) },
    health: new ToolHealth(runs),
    learned: new LearnedTools({ toolStates, limits, powers, redact: (it) => it }),
    writes: new WritesByPrincipal('bench'),
    viewOf,
  });
  const ends: Record<typeof end, Handler<never>> = {
    constant: async () => succeeded(data),
    host: async (call: ClearedCall) => {
      await host(call);
      return succeeded(data);
    },
    tool: host,
  };
  const passed = stages.flatMap((it) => all[it] as Stage<never, Call>[]);
  return { policy, run: passed.reduceRight((next, stage) => stage(next as Handler), ends[end]) as Handler };
}

/** Makes the handler for one connection's requests. */
function served(layer: (typeof LAYERS)[number]): (method: string, params: unknown) => unknown {
  if (layer.frames) return () => result;
  const { policy, run } = handlerOf(layer);
  const session = new Session({
    id: powers.uuid(),
    secret: '',
    role: 'agent',
    principal: 'local',
    client: 'bench 1',
    root: workspace,
    workspace,
    withOpenings: (_, it) => it,
    policy: () => policy,
    toolset: builtinToolset(),
    run,
    limits,
    powers,
    keeping: { earlierResult: () => undefined, recordStart() {}, recordEnd() {} },
    untrusted: { has: () => false, add() {}, carry() {} },
    congested: () => false,
    onUpdate: ({ id: callId, sessionId }, state) =>
      void events.publish({ topic: 'calls', sessionId, method: 'call.update', params: { callId, state } }),
    onOutput: () => undefined,
  });
  return (_, params) => {
    const { tool, input, options } = parseParams('tools.call', params) as {
      tool: string;
      input: unknown;
      options: { callId: string };
    };
    return session.call(tool, input, options);
  };
}

/** Heap in use, garbage included; `heap.clean` collects it first. */
function heapBytes(method: string): number {
  if (method === 'heap.clean') globalThis.gc?.();
  return process.memoryUsage().heapUsed;
}

for (const [at, layer] of LAYERS.entries()) {
  const answer = served(layer);
  await listenUnix(join(stateDir, `${at}.sock`), (channel) => {
    const onRequest = (method: string, params: unknown) =>
      method.startsWith('heap') ? heapBytes(method) : answer(method, params);
    new Peer(channel, { limits, powers, onRequest });
  });
}
console.log('up');
process.once('SIGTERM', async () => {
  await hosts[Symbol.asyncDispose]();
  process.exit();
});
