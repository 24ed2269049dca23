/** zod schemas of what is told of tasks of sub-agents. */
import * as z from 'zod';
import { count } from '../base/result-shapes.ts';

/** A task of a sub-agent. `ended` and what follows are absent while it runs. */
export const listedTask = z.strictObject({
  taskId: z.string(),
  callId: z.string(),
  sessionId: z.string(),
  principal: z.string(),
  workspace: z.string(),
  agent: z.string(),
  model: z.string(),
  prompt: z.string(),
  startedAt: z.iso.datetime(),
  parents: z.array(z.strictObject({ callId: z.string(), tool: z.string() })),
  running: z.boolean(),
  ended: z.enum(['done', 'cycles', 'budget', 'cancelled', 'refused', 'error']).optional(),
  reason: z.string().optional(),
  endedAt: z.iso.datetime().optional(),
  usage: z
    .strictObject({ inputTokens: count(), outputTokens: count(), usd: z.number().optional(), cycles: count() })
    .optional(),
  calls: count().optional(),
});

/** A task with its transcript; the kinds of entries are `answer`, `result` and `end`. */
export const shownTask = listedTask.extend({
  transcript: z.array(z.looseObject({ kind: z.string(), at: z.iso.datetime() })),
  truncated: z.boolean(),
});
