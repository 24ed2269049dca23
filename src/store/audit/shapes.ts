/** zod schemas of what the audit log tells, as docs/protocol-reference.md has it. */
import * as z from 'zod';
import { count, decision, effect, moment, resources } from '../../base/result-shapes.ts';

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
  detail: z
    .record(z.string(), z.unknown())
    .optional()
    .describe('Further facts about a session, an approval or a policy.'),
  previousHash: z.string().describe('Hex; 64 zeros before the first entry.'),
  hash: z.string(),
  outcome: z.literal('unknown').optional().describe('Set on an intent if the daemon ended before its outcome.'),
});

export const verification = z.strictObject({
  ok: z.boolean(),
  entries: count().describe('How many were verified.'),
  firstBroken: count().optional().describe('The first entry that can not be trusted, if one can be named.'),
  reason: z.string().optional(),
  droppedBefore: count().optional().describe('The first entry that is there, if retention dropped earlier ones.'),
  droppedForSize: count()
    .optional()
    .describe(
      'The last entry that was dropped to make room rather than for its age: a flood of entries may have caused it.',
    ),
  pruned: z
    .strictObject({
      entry: count().describe('The entry that records it.'),
      at: z.string(),
      by: z.string(),
      upTo: count().describe('The last entry that was dropped.'),
    })
    .optional()
    .describe('The last time that an operator dropped entries, as far as it is still on record.'),
});

/** The calls that ended on one day, as far as the record still has them. */
export const callDay = z.strictObject({
  day: z.string().describe('UTC, as 2026-01-31.'),
  calls: count(),
  failed: count().describe('Calls that ran and failed.'),
  refused: count().describe('Calls that policy, limits or a person refused.'),
  meanMs: z.number().optional().describe('Of those that ran.'),
});

/** How often calls were made, and how they ended. */
const usageCounts = {
  calls: count(),
  failed: count().describe('Calls that ran and failed.'),
  refused: count().describe('Calls that policy, limits or a person refused.'),
  cacheHits: count().describe('Calls that a kept result answered.'),
  p50Ms: z.number().optional().describe('Of those that ran, within 5 %.'),
  p99Ms: z.number().optional(),
  usd: z.number(),
};

export const toolUsage = z.strictObject({
  since: z.iso.datetime(),
  periodMs: z.number().describe('The time has 24 periods of this length.'),
  tools: z
    .array(
      z.strictObject({
        tool: z.string().describe('`unknown` for names that no session has, `other` beyond `metricToolsMax` tools.'),
        ...usageCounts,
        lastAt: z.iso.datetime(),
        overTime: z
          .array(z.strictObject({ at: z.iso.datetime(), ...usageCounts }))
          .describe('Periods that had calls, by their beginning, the oldest first.'),
      }),
    )
    .describe('Tools that were called, the most calls first.'),
  cut: z.literal(true).optional().describe('Set if older entries of this time were not counted.'),
});
