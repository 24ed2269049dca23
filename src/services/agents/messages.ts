/** What an agent process asks for, and what it is answered. The process reads what models write, so its messages are checked like a stranger's. */
import * as z from 'zod';

/** Names of what it asks for, in place of tools. */
export const ASK_MODEL = 'model';
export const ASK_ANSWERED = 'answered';

/** The task of an agent process. */
export interface AgentJob {
  readonly dialect: 'openai' | 'anthropic';
  readonly system: string;
  readonly prompt: string;
  /** JSON Schema of the answer. */
  readonly output?: Readonly<Record<string, unknown>> | undefined;
}

/** Asks for an answer of the model; answered with its stream. */
export const modelAsk = z.strictObject({ system: z.string(), messages: z.array(z.unknown()).max(10_000) });
export type ModelAsk = z.output<typeof modelAsk>;

/** The stream of an answer as it came. */
export interface ModelStream {
  readonly body: string;
}

const CALLS_MAX = 1_000;
const tokens = z.number().min(0).max(1_000_000_000_000);

/** Tells what the model answered; answered with the results of its calls, or with the end of the task. */
export const answeredAsk = z.strictObject({
  text: z.string(),
  /** Calls whose arguments are JSON; `id` names them in the answer only. */
  calls: z
    .array(z.strictObject({ id: z.string().max(256), tool: z.string().max(256), input: z.unknown() }))
    .max(CALLS_MAX),
  /** Calls whose arguments are none, for the transcript. */
  malformed: z.array(z.string().max(256)).max(CALLS_MAX),
  usage: z.strictObject({ inputTokens: tokens, outputTokens: tokens }).optional(),
  /** Whether the answer was cut at its longest. */
  cut: z.boolean(),
});
export type AnsweredAsk = z.output<typeof answeredAsk>;

export interface TurnAnswer {
  readonly results: readonly { readonly id: string; readonly text: string; readonly success: boolean }[];
  /** Whether the task is over. */
  readonly over: boolean;
}

/** What an agent process gives at its end. */
export const agentResult = z.strictObject({
  text: z.string(),
  output: z.unknown().optional(),
  /** Why the task is not done. */
  problem: z.string().max(2_000).optional(),
});
export type AgentResult = z.output<typeof agentResult>;
