/**
 * Limits calls per tool, session and principal in a span of time. Not rate-limiter-flexible: that library reads its
 * own clock, keeps an unbounded timer for each key, counts refused calls, can't take several limits at once, and
 * forgets spans over 24 days immediately, since they overflow its timer.
 */
import { createHash } from 'node:crypto';
import { ToolError } from '../../base/errors.ts';
import type { Limits } from '../../base/limits.ts';
import type { Powers } from '../../base/powers.ts';
import { matchPieces } from '../../base/text/glob.ts';
import { otherNames } from '../../policy/decide.ts';
import type { Policy, RateLimit } from '../../policy/schema.ts';
import type { Call, Stage } from '../stage.ts';
import { CallsUnderWay } from './calls-under-way.ts';

/** A span of time, and how many calls were let through in it. */
interface RateWindow {
  readonly perMs: number;
  calls: number;
  endsAtMs: number;
}

interface LimitRule {
  readonly limit: RateLimit;
  /** Identifies what the limit counts, without its maximum: two policies that limit the same calls share a count. */
  readonly counts: string;
  /** Each tool pattern, split at its `*`. */
  readonly patterns: readonly (readonly string[])[];
  /** Shared by all newcomers once `rateKeysMax` spans are kept. */
  shared?: RateWindow;
}

/** A sweep of rateKeysMax spans takes about 1 ms, too much for each call of a flood of new sessions. */
const SWEEP_EVERY_MS = 1000;

/**
 * Lets a call through if its principal has few enough under way, and all rate limits of its policies that name its tool have room,
 * and then counts it in each; a refused call counts in none. Throws QUEUE_FULL, RATE_LIMITED. A span begins with its first call, on the
 * monotonic clock.
 */
export const rateLimit = (powers: Powers, limits: Limits): Stage => {
  const rulesOf = createRuleIndex();
  const spans = new RateWindows(limits.rateKeysMax);
  const underWay = new CallsUnderWay(limits);
  return (next) => (call) => {
    underWay.assertRoom(call.principal);
    const rules = rulesOf(call);
    // Whole milliseconds add up exactly, so a caller that waits `retryAfterMs` is let in.
    if (rules.length > 0) take(call, rules, spans, Math.floor(powers.monotonicMs()));
    return underWay.during(call.principal, () => next(call));
  };
};

function take(call: Call, rules: readonly LimitRule[], spans: RateWindows, nowMs: number): void {
  const found = rules.map((rule) => ({ rule, span: spans.get(rule, scopeOf(rule, call), nowMs) }));
  const full = found.filter(({ rule, span }) => span.calls >= rule.limit.calls);
  const [longest] = full.sort((a, b) => b.span.endsAtMs - a.span.endsAtMs);
  if (longest) throw limited(call, longest.rule, longest.span.endsAtMs - nowMs);
  for (const span of new Set(found.map((it) => it.span))) {
    // An empty span starts with this call.
    if (span.calls === 0) span.endsAtMs = nowMs + span.perMs;
    span.calls += 1;
  }
}

function scopeOf({ limit }: LimitRule, { accountId, principal }: Call): string {
  switch (limit.per) {
    case 'session':
      return accountId;
    case 'principal':
      return principal;
    case 'daemon':
      return '';
    default:
      return limit.per satisfies never;
  }
}

/** Spans by what they count and for whom; at most `max`. */
class RateWindows {
  readonly #spans = new Map<string, RateWindow>();
  readonly #max: number;
  #sweepAtMs = 0;

  constructor(max: number) {
    this.#max = max;
  }

  /**
   * The running span, or an empty one. When too many run, newcomers share one per rule: dropping a span would let
   * anyone who opens enough sessions reset a limit, and refusing newcomers would let them shut everybody else out.
   */
  get(rule: LimitRule, scope: string, nowMs: number): RateWindow {
    const key = `${rule.counts} ${scope}`;
    let span = this.#spans.get(key);
    if (!span) {
      const { perMs } = rule.limit;
      const own = this.#hasRoom(nowMs);
      span = (own ? undefined : rule.shared) ?? { perMs, calls: 0, endsAtMs: nowMs + perMs };
      if (own) this.#spans.set(key, span);
      else rule.shared = span;
    }
    if (span.endsAtMs <= nowMs) {
      span.calls = 0;
      span.endsAtMs = nowMs + span.perMs;
    }
    return span;
  }

  #hasRoom(nowMs: number): boolean {
    if (this.#spans.size < this.#max) return true;
    if (nowMs < this.#sweepAtMs) return false;
    this.#sweepAtMs = nowMs + SWEEP_EVERY_MS;
    for (const [key, { endsAtMs }] of this.#spans) if (endsAtMs <= nowMs) this.#spans.delete(key);
    return this.#spans.size < this.#max;
  }
}

/** Finds the rules for a call's tool; cached by policy and known tool, since both are few and calls are many. */
function createRuleIndex(): (call: Call) => readonly LimitRule[] {
  const compiled = new WeakMap<Policy, readonly LimitRule[]>();
  const byTool = new WeakMap<Policy, Map<string, readonly LimitRule[]>>();

  const rulesOf = (policy: Policy): readonly LimitRule[] => {
    const known = compiled.get(policy);
    if (known) return known;
    // Each layer is compiled separately: a shared span outlives the policies composed of the layer.
    const rules = [...policy.rateLimits.map(compile), ...policy.and.flatMap(rulesOf)];
    compiled.set(policy, rules);
    return rules;
  };

  return ({ policy, toolset, name }) => {
    const rules = rulesOf(policy);
    if (rules.length === 0) return rules;
    const tool = toolset.get(name)?.tool;
    // Unknown names are not cached: there is no end to them.
    if (!tool) return rules.filter((rule) => covers(rule, name));
    const tools = byTool.get(policy) ?? new Map<string, readonly LimitRule[]>();
    byTool.set(policy, tools);
    // Aliases count, as they do in rules.
    const names = [tool.name, ...otherNames(tool)];
    const about = tools.get(tool.name) ?? rules.filter((rule) => names.some((it) => covers(rule, it)));
    tools.set(tool.name, about);
    return about;
  };
}

function compile(limit: RateLimit): LimitRule {
  const { per, perMs, tool } = limit;
  const counts = createHash('sha256')
    .update(JSON.stringify([per, perMs, tool]))
    .digest('base64url');
  return { limit, counts, patterns: tool.map((it) => it.split('*')) };
}

const covers = ({ patterns }: LimitRule, tool: string): boolean => patterns.some((it) => matchPieces(it, tool));

const WHOSE: Record<RateLimit['per'], string> = {
  session: 'per session',
  principal: 'per principal',
  daemon: 'over all sessions',
};

/** The most patterns of a rule that a message names. */
const PATTERNS_TOLD_MAX = 3;

function limited({ name, toolset }: Call, { limit }: LimitRule, retryAfterMs: number): ToolError {
  const { calls, perMs, per, tool: patterns, source } = limit;
  const tool = toolset.get(name)?.tool.name ?? name;
  const shownPatterns = patterns.slice(0, PATTERNS_TOLD_MAX).map((it) => `\`${it}\``);
  const together =
    patterns.length === 1 && patterns[0] === tool ? '' : `, together with all of ${shownPatterns.join(', ')},`;
  const message = `\`${tool}\`${together} is limited to ${calls} calls in ${perMs / 1000} s ${WHOSE[per]} (${source})`;
  return new ToolError('RATE_LIMITED', message, {
    rule: 'rateLimits',
    suggestion: `Wait ${Math.ceil(retryAfterMs / 1000)} s before the next one.`,
    details: { retryAfterMs, limit: calls, perMs, per },
  });
}
