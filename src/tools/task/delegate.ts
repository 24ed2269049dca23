import * as z from 'zod';
import { defaultLimits } from '../../base/limits.ts';
import { rare } from '../rare-parameters.ts';
import { defineTool } from '../tool.ts';

const { taskCyclesMax, taskPromptChars } = defaultLimits;
const DEFAULT_CYCLES = 10;
/** Characters of a JSON Schema for an answer. */
const SCHEMA_CHARS_MAX = 16 * 1024;

export const TASK_ENDS = ['done', 'cycles', 'budget', 'cancelled', 'refused', 'error'] as const;
export type TaskEnd = (typeof TASK_ENDS)[number];

const prompt = z.string().min(1).max(taskPromptChars).describe('The task, with all that the sub-agent has to know.');
const context = z.string().max(taskPromptChars).optional().describe('What helps with the task, such as findings.');

const input = z.strictObject({
  prompt,
  context,
  tools: z
    .array(z.string().min(1).max(128))
    .max(256)
    .optional()
    .describe(
      'The only tools it has, of yours; `*` matches anything; none: its model only answers. By default it reads, searches and edits files and runs commands.',
    ),
  maxCycles: z.int().min(1).max(taskCyclesMax).default(DEFAULT_CYCLES).describe('Most answers of its model.'),
  budget: rare(
    z
      .strictObject({
        usd: z.number().min(0).max(1_000_000).optional(),
        tokens: z.int().min(0).max(1_000_000_000).optional(),
        calls: z.int().min(0).max(1_000_000).optional(),
        ms: z.int().min(1).max(86_400_000).optional(),
      })
      .optional()
      .describe('Most that it may spend, taken out of your own budget; what is left comes back.'),
  ),
  agent: rare(z.string().min(1).max(64).optional().describe('Profile of the configuration (default: `default`).')),
  mode: z.string().min(1).max(64).optional().describe('`read`, `plan`, `code`, or one of the configuration.'),
  output: rare(
    z
      .record(z.string(), z.unknown())
      .refine((it) => JSON.stringify(it).length <= SCHEMA_CHARS_MAX, `takes at most ${SCHEMA_CHARS_MAX} characters`)
      .optional()
      .describe('JSON Schema of the answer, which is then given as `output` instead of a summary.'),
  ),
});

export type TaskInput = z.output<typeof input>;

const output = z.strictObject({
  summary: z.string().optional().describe('What the sub-agent said at its end.'),
  output: z.unknown().optional().describe('Its answer, if a schema was asked for.'),
  toolExecutions: z.array(
    z.strictObject({
      tool: z.string(),
      callId: z.string().describe('Its record is that of any call.'),
      success: z.boolean(),
    }),
  ),
  modifiedFiles: z.array(z.string()).describe('Files that its calls changed.'),
  usage: z.strictObject({
    inputTokens: z.number(),
    outputTokens: z.number(),
    usd: z.number().optional().describe('Absent if the prices of the model are not configured.'),
    cycles: z.number().describe('Answers of its model.'),
  }),
  ended: z.enum(TASK_ENDS).describe('Why it ended; only after `done` the task is complete.'),
  reason: z.string().optional().describe('More about why it ended.'),
  taskId: z.string().describe('Names its transcript: `ringfence tasks show ID`.'),
});

export type TaskOutput = z.output<typeof output>;

export default defineTool({
  name: 'task_delegate',
  title: 'Delegate a task',
  summary:
    'Give a task to a sub-agent with its own model and conversation, and get a summary: for searches and changes whose steps need not stay in your context. ' +
    'It has your tools that `tools` names, works in the same workspace, and knows only what you tell it. Independent tasks can run at once.',
  notes:
    'The model is that of a profile of config.yaml, the key `agents`; without one the tool is not there. A sub-agent is a session of its own whose policy is that of its caller, narrowed; answers that a person asked to be remembered do not count for it. It has `task_delegate` itself only if `tools` names it.',
  capabilities: [
    { action: 'delegate', description: 'Gives a task to a sub-agent with fewer rights, and returns its summary.' },
  ],
  category: 'development',
  tier: 'external_api',
  runs: { by: 'agents' },
  // The daemon puts the host of the profile's model in place of this name, which no host has.
  effects: () => [{ kind: 'connect', target: 'model.invalid:443' }],
  input,
  output,
  examples: [
    {
      input: { prompt: 'Find where the settings are read.', tools: ['file_*'], mode: 'read', maxCycles: 5 },
      output: { summary: 'In settings.ts.', ended: 'done' },
    },
    { input: { prompt: 'Which tests fail?', tools: ['no_such_tool'] }, error: 'INPUT_INVALID' },
  ],
  aliases: [{ name: 'task', input }],
});
