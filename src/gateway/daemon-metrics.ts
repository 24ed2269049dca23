/** Metrics of the whole daemon: what `status` shows as gauges, and the counts of calls and answers. */
import { performance } from 'node:perf_hooks';
import type { HostReport } from '../base/call.ts';
import type { CallStore } from '../store/call-store.ts';
import { McpMetrics } from '../store/telemetry/conventions.ts';
import { type Family, single, toText } from '../store/telemetry/families.ts';
import type { Events } from './events.ts';
import type { StatusParts } from './operator/status-parts.ts';
import type { UndoParts } from './undo/undo.ts';

export interface MetricParts extends StatusParts, Pick<UndoParts, 'undoJournal'> {
  readonly events: Events;
  readonly callStore: Pick<CallStore, 'writable'>;
  readonly startedAt: number;
  readonly sessions: { readonly all: readonly unknown[] };
  /** Number of operators who listen for approvals now. */
  approvers(): number;
}

export class DaemonMetrics {
  readonly #parts: MetricParts;
  /** Requests of MCP clients. */
  readonly mcp = new McpMetrics();
  /** Settled questions by their answer. */
  readonly #answers = new Map<string, number>();

  constructor(parts: MetricParts) {
    this.#parts = parts;
    parts.events.listen(({ method, params: { decision } }) => {
      if (method !== 'approval.resolved' || typeof decision !== 'string') return;
      this.#answers.set(decision, (this.#answers.get(decision) ?? 0) + 1);
    });
  }

  /** What keeps the daemon from working as it should. */
  get problems(): string[] {
    const { auditStatus, callStore, canStartHosts } = this.#parts;
    return [
      ...(auditStatus().writable ? [] : ['the audit log can not be written']),
      ...(callStore.writable ? [] : ['the store of calls can not be written']),
      ...(canStartHosts() ? [] : ['no sandbox can be started']),
    ];
  }

  /** Number of sessions, also of those that wait for their client to come back. */
  get sessions(): number {
    return this.#parts.sessions.all.length;
  }

  async text(): Promise<string> {
    return toText(await this.families());
  }

  async families(): Promise<Family[]> {
    const { pipeline, hostStatus } = this.#parts;
    const answers = [...this.#answers].map(([decision, value]) => ({ labels: { decision }, value }));
    return [
      ...pipeline.metrics.families(),
      ...this.mcp.families(),
      ...(pipeline.tracer?.families() ?? []),
      { ...ANSWERS, samples: answers },
      ...this.#gauges(),
      ...hostFamilies(await hostStatus()),
      ...this.#processFamilies(),
    ];
  }

  #gauges(): Family[] {
    const { pipeline, sessions, cache, undoJournal, auditStatus, diskStatus, approvers, approvalsPending } =
      this.#parts;
    const { running, queued } = pipeline.queue;
    const { entries, writable } = auditStatus();
    const gauge = (name: string, help: string, value: number) => single(`ringfence_${name}`, 'gauge', help, value);
    return [
      gauge('sessions', 'Open sessions.', sessions.all.length),
      gauge('calls_running', 'Calls that hold a place at a host.', running),
      gauge('queue_depth', 'Calls that wait for a place at a host.', queued),
      gauge('approvals_pending', 'Calls that wait for a person.', approvalsPending()),
      gauge('approvers', 'Operators who listen for questions.', approvers()),
      single('ringfence_cache_hits_total', 'counter', 'Results of reading that were given again.', cache.status.hits),
      single('ringfence_cache_misses_total', 'counter', 'Reads that no kept result answered.', cache.status.misses),
      gauge('cache_bytes', 'Bytes of kept results of reading.', cache.status.bytes),
      gauge('audit_entries', 'Entries of the audit log.', entries),
      gauge('audit_writable', '1 while the audit log can be written, else 0.', writable ? 1 : 0),
      gauge('undo_calls', 'Calls that can be undone.', undoJournal.status.calls),
      gauge('undo_bytes', 'Bytes kept to undo calls.', undoJournal.status.bytes),
      gauge('disk_free_bytes', 'Free bytes on the disk of the state directory.', diskStatus().freeBytes),
      ...this.#parts.running.flatMap((it) => it.metrics?.() ?? []),
    ];
  }

  #processFamilies(): Family[] {
    const { version, powers, startedAt } = this.#parts;
    const { user, system } = process.cpuUsage();
    const loop = performance.eventLoopUtilization();
    const startedS = (powers.now() - (powers.monotonicMs() - startedAt)) / 1000;
    return [
      { ...BUILD, samples: [{ labels: { version }, value: 1 }] },
      single('process_resident_memory_bytes', 'gauge', 'Resident memory of the gateway.', process.memoryUsage.rss()),
      single('process_cpu_seconds_total', 'counter', 'CPU time of the gateway.', (user + system) / 1e6),
      single('process_start_time_seconds', 'gauge', 'Start of the gateway, in seconds since the epoch.', startedS),
      single(
        'nodejs_eventloop_active_seconds_total',
        'counter',
        'Time in which the event loop worked.',
        loop.active / 1000,
      ),
      single(
        'nodejs_eventloop_idle_seconds_total',
        'counter',
        'Time in which the event loop waited.',
        loop.idle / 1000,
      ),
    ];
  }
}

const ANSWERS = {
  name: 'ringfence_approvals_total',
  type: 'counter',
  help: 'Settled questions to people, by answer.',
} as const;
const BUILD = { name: 'ringfence_build_info', type: 'gauge', help: 'Always 1; names the version.' } as const;

/** Sums over the hosts of each tier; single hosts come and go. */
const HOST_SUMS: readonly [name: string, type: Family['type'], help: string, of: (host: HostReport) => number][] = [
  ['ringfence_hosts', 'gauge', 'Processes that run calls.', () => 1],
  ['ringfence_host_threads', 'gauge', 'Threads of hosts.', ({ threads }) => threads],
  ['ringfence_host_threads_busy', 'gauge', 'Threads of hosts that run a call.', ({ busy }) => busy],
  ['ringfence_host_memory_bytes', 'gauge', 'Resident memory of hosts.', ({ rssBytes }) => rssBytes],
  [
    'ringfence_host_children_memory_bytes',
    'gauge',
    'Resident memory of the processes that hosts keep: language servers, parsers, browsers.',
    ({ children }) => children.reduce((sum, { rssBytes }) => sum + rssBytes, 0),
  ],
  ['ringfence_host_restarts', 'gauge', 'How often the hosts that run now were restarted.', ({ restarts }) => restarts],
];

function hostFamilies(hosts: readonly HostReport[]): Family[] {
  const byTier = [...Map.groupBy(hosts, ({ tier }) => tier)];
  return HOST_SUMS.map(([name, type, help, of]) => ({
    name,
    type,
    help,
    samples: byTier.map(([tier, all]) => ({ labels: { tier }, value: all.reduce((sum, it) => sum + of(it), 0) })),
  }));
}
