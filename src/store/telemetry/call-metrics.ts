/**
 * Counts ended calls for `metrics.read`. Labels come from closed lists or from names of tools that sessions have, never
 * from what a caller wrote, so that no caller can make the answer grow or put a secret into it.
 */
import type { Decision, Tier } from '../../base/call.ts';
import type { ToolError } from '../../base/errors.ts';
import type { Limits } from '../../base/limits.ts';
import { ToolDurations } from './conventions.ts';
import type { Family } from './families.ts';
import { Histogram } from './histogram.ts';

/** Upper bounds of the buckets, in seconds: from a cached read to a command at its time limit. */
export const BUCKETS: readonly number[] = [
  ...[0.000_25, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05],
  ...[0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120],
];

interface TierCounts {
  readonly duration: Histogram;
  readonly queued: Histogram;
  readonly decisions: Map<Decision, number>;
}

interface ToolCounts {
  readonly tier: Tier | 'none';
  readonly outcomes: Map<string, number>;
  readonly durations: ToolDurations;
  readonly of: TierCounts;
}

/** A call that ended, as far as it is counted. */
export interface EndedCall {
  /** The tool of the session's toolset; undefined if the caller named none of it. */
  readonly tool: { readonly name: string; readonly tier: Tier } | undefined;
  readonly decision: Decision | undefined;
  readonly durationMs: number;
  readonly queuedMs: number;
  readonly error: ToolError | undefined;
}

/** Counts calls to names that no session has. */
const UNKNOWN = { name: 'unknown', tier: 'none' } as const;
/** Counts calls to further tools once metricToolsMax are told apart. */
const OTHER = 'other';

const add = <K>(counts: Map<K, number>, key: K): void => void counts.set(key, (counts.get(key) ?? 0) + 1);

export class CallMetrics {
  readonly #limits: Pick<Limits, 'metricToolsMax'>;
  readonly #tools = new Map<string, ToolCounts>();
  readonly #tiers = new Map<string, TierCounts>();
  readonly #codes = new Map<string, number>();

  constructor(limits: Pick<Limits, 'metricToolsMax'>) {
    this.#limits = limits;
  }

  ended({ tool, decision, durationMs, queuedMs, error }: EndedCall): void {
    const counts = this.#tools.get(tool?.name ?? UNKNOWN.name) ?? this.#begin(tool ?? UNKNOWN);
    add(counts.outcomes, error ? error.toWire().category.toLowerCase() : 'ok');
    if (error) add(this.#codes, error.code);
    counts.durations.observe(durationMs, error !== undefined);
    const { duration, queued, decisions } = counts.of;
    duration.observe(durationMs / 1000);
    queued.observe(queuedMs / 1000);
    if (decision) add(decisions, decision);
  }

  families(): Family[] {
    const tools = [...this.#tools];
    const tiers = [...this.#tiers];
    const calls = tools.flatMap(([tool, { tier, outcomes }]) =>
      [...outcomes].map(([outcome, value]) => ({ labels: { tool, tier, outcome }, value })),
    );
    const decisions = tiers.flatMap(([tier, it]) =>
      [...it.decisions].map(([decision, value]) => ({ labels: { tier, decision }, value })),
    );
    const codes = [...this.#codes].map(([code, value]) => ({ labels: { code }, value }));
    return [
      { name: 'ringfence_calls_total', type: 'counter', help: 'Ended calls by tool and outcome.', samples: calls },
      { name: 'ringfence_call_errors_total', type: 'counter', help: 'Failed calls by error code.', samples: codes },
      {
        name: 'ringfence_call_decisions_total',
        type: 'counter',
        help: 'Ended calls by what policy decided.',
        samples: decisions,
      },
      {
        name: 'ringfence_call_duration_seconds',
        type: 'histogram',
        help: 'Time from arrival to result.',
        samples: tiers.flatMap(([tier, { duration }]) => duration.samples({ tier })),
      },
      {
        name: 'ringfence_call_queue_seconds',
        type: 'histogram',
        help: 'Time in the queue of a host.',
        samples: tiers.flatMap(([tier, { queued }]) => queued.samples({ tier })),
      },
      ToolDurations.family(tools.map(([name, { durations }]) => [name, durations])),
    ];
  }

  /** Begins to count a tool; a provider or plugin may bring any number of tools. */
  #begin({ name, tier }: { readonly name: string; readonly tier: Tier | 'none' }): ToolCounts {
    const isOver = this.#tools.size >= this.#limits.metricToolsMax;
    const key = isOver ? OTHER : name;
    const known = this.#tools.get(key);
    if (known) return known;
    const ofTier = isOver ? 'none' : tier;
    const of = this.#tiers.get(ofTier) ?? {
      duration: new Histogram(BUCKETS),
      queued: new Histogram(BUCKETS),
      decisions: new Map(),
    };
    this.#tiers.set(ofTier, of);
    const counts = { tier: ofTier, outcomes: new Map<string, number>(), durations: new ToolDurations(), of };
    this.#tools.set(key, counts);
    return counts;
  }
}
