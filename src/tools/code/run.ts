import * as z from 'zod';
import { defaultLimits } from '../../base/limits.ts';
import { rare } from '../rare-parameters.ts';
import { defineTool } from '../tool.ts';

const { codeCharsMax, codeMemoryMb, codeLogsMax, callTimeoutMs } = defaultLimits;
const DEFAULT_TIMEOUT_MS = 30_000;

export default defineTool({
  name: 'code_run',
  title: 'Run a program over tools',
  summary: [
    'Run JavaScript or TypeScript that calls tools: one program instead of many calls.',
    'The code is the body of an async function: `(await tools.file_read({ path: "a.txt" })).content`; a failed call throws an Error with `code`; `return` a JSON value.',
    'It has `input`, `console` and `setTimeout`, and no files, network or import of its own.',
  ].join(' '),
  notes:
    'Each tool call is judged and recorded as if it were made alone; calls that are not awaited end with the program. TypeScript has its types left out. In values, a Map or Set is a list, and a RegExp, an invalid Date, NaN or Infinity text. Of the web there are TextEncoder, TextDecoder (utf-8), structuredClone, AbortController, URL and URLSearchParams.',
  capabilities: [
    { action: 'run', description: 'Runs a JavaScript or TypeScript program that calls tools, and returns its value.' },
  ],
  category: 'development',
  tier: 'execute',
  runs: { by: 'isolates' },
  destructive: true,
  isExtra: true,
  // A program has no effects itself: each of its calls is judged by its own.
  effects: () => [],
  timeoutMs: ({ timeoutMs = DEFAULT_TIMEOUT_MS }) => timeoutMs,
  input: z.strictObject({
    code: z.string().min(1).max(codeCharsMax).describe('Body of an async function.'),
    input: z.unknown().optional().describe('Any JSON value.'),
    tools: rare(
      z
        .array(z.string().min(1).max(128))
        .max(128)
        .optional()
        .describe('The only tools the program may call (default: all of the session).'),
    ),
    timeoutMs: z
      .int()
      .min(1)
      .max(callTimeoutMs.execute)
      .optional()
      .describe(`${DEFAULT_TIMEOUT_MS} by default; waiting for a person does not count.`),
    memoryMb: rare(z.int().min(8).max(codeMemoryMb).optional().describe('Memory of the program in MiB (default: 64).')),
  }),
  output: z.strictObject({
    value: z.unknown().optional().describe('What the program returned; absent for undefined.'),
    logs: z
      .array(z.strictObject({ level: z.enum(['log', 'info', 'warn', 'error']), text: z.string() }))
      .max(codeLogsMax)
      .describe('What the program wrote to the console.'),
  }),
  examples: [
    { input: { code: 'return 1 + 1' }, output: { value: 2, logs: [] } },
    {
      input: {
        code: 'const read = await tools.file_read({ path: input }); console.log(read.content.length); return read.content.split("\\n").length',
        input: 'notes.txt',
      },
      output: { value: 4 },
    },
    { input: { code: 'const n: number = 2; return n' }, output: { value: 2 } },
    { input: { code: 'throw new Error("no")' }, error: 'CODE_ERROR' },
  ],
});
