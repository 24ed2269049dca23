import * as z from 'zod';
import { ToolError } from '../../base/errors.ts';
import { defineTool, type ToolContext, workspacePath } from '../tool.ts';
import { readTestReport, type TestReport, testFailure } from './test-reports.ts';
import { assertSelectable, findRunner, RUNNERS, type Runner, reportOf, testCommand } from './test-runners.ts';

const PATHS_MAX = 100;
const FAILURES_TOLD = 50;
const OUTPUT_CHARS_TOLD = 4_000;
const DEFAULT_TIMEOUT_MS = 300_000;
const NO_TESTS: TestReport = { passed: 0, failed: 0, skipped: 0, failures: [] };

const input = z.strictObject({
  runner: z
    .enum(['auto', ...RUNNERS])
    .default('auto')
    .describe('auto: by what the workspace has at its root.'),
  paths: z
    .array(workspacePath().refine((it) => !it.startsWith('-'), 'must not begin with -'))
    .max(PATHS_MAX)
    .default([])
    .describe('Test files or directories (default: all).'),
  filter: z
    .string()
    .min(1)
    .max(1024)
    .refine((it) => !it.startsWith('-') && !it.includes('\0'), 'must not begin with -, nor hold a NUL byte')
    .optional()
    .describe("Tests by name, in the runner's own syntax."),
  onlyChanged: z.boolean().default(false).describe('Only tests of files that git sees changed (vitest, jest).'),
  timeoutMs: z.int().min(1).max(3_600_000).default(DEFAULT_TIMEOUT_MS).describe('Milliseconds.'),
});
type Input = z.output<typeof input>;

/** The command line; for a runner that is still to be found, one that no rule may allow. */
function commandOf(wanted: Input) {
  if (wanted.runner === 'auto')
    return { command: ':', cwd: '.', env: {}, unknown: 'the test runner is found when the call is made' };
  return { command: testCommand(wanted.runner, wanted), cwd: '.', env: {} };
}

export default defineTool({
  name: 'code_test',
  title: 'Run tests',
  summary:
    'Run the tests of the workspace by vitest, jest, node, pytest, go or cargo, as a command in its sandbox. Gives counts ' +
    "and failures with file, line and message, from the runner's report and not from what tests print.",
  notes:
    '`inconsistent` tells that report and exit code contradict each other: the runner crashed, a test ended it, or the ' +
    'tests lie. Its output is then in `output`. A run that is out of time is a TIMEOUT error, whose details hold its output.',
  isExtra: true,
  capabilities: [{ action: 'test', description: 'Runs the tests of a workspace and tells which failed, and why.' }],
  category: 'development',
  tier: 'execute',
  destructive: true,
  effects: (it) => [{ kind: 'exec', target: commandOf(it).command }],
  commandOf,
  timeoutMs: ({ timeoutMs }) => timeoutMs,
  input,
  output: z.strictObject({
    passed: z.int().nonnegative(),
    failed: z.int().nonnegative(),
    skipped: z.int().nonnegative(),
    failures: z.array(testFailure).describe(`The first ${FAILURES_TOLD}.`),
    runner: z.enum(RUNNERS),
    exitCode: z.int(),
    durationMs: z.number(),
    inconsistent: z.string().optional().describe('How report and exit code contradict each other.'),
    output: z.string().optional().describe('The end of what the runner printed, if the run is inconsistent.'),
  }),
  examples: [
    { input: {}, error: 'UNSUPPORTED' },
    { input: { runner: 'go', onlyChanged: true }, error: 'UNSUPPORTED' },
  ],

  before: {
    resolve(wanted, ctx) {
      if (wanted.runner !== 'auto') return Promise.resolve([]);
      const runner = findRunner(ctx);
      if (runner) return Promise.resolve([{ ...wanted, runner }]);
      throw new ToolError('UNSUPPORTED', 'the workspace shows no test runner at its root', {
        suggestion: `Name one as runner (${RUNNERS.join(', ')}), or run the tests by terminal_execute.`,
      });
    },
  },

  async run(wanted, ctx) {
    const { runner } = wanted;
    if (runner === 'auto') throw new ToolError('INTERNAL', 'the test runner was not resolved');
    assertSelectable(runner, wanted);
    return runTests(runner, wanted, ctx);
  },
});

async function runTests(runner: Runner, wanted: Input, ctx: ToolContext) {
  const command = ctx.command({ ...commandOf(wanted), report: reportOf(runner) });
  const { report, stderr, exitCode, durationMs } = await ctx.run(command);
  const text = report?.toString('utf8') ?? '';
  const read = readTestReport(runner, text, { workspace: ctx.workspace, stderr });
  const { passed, failed, skipped, failures } = read ?? NO_TESTS;
  const inconsistent = contradiction(read, exitCode);
  return {
    passed,
    failed,
    skipped,
    runner,
    exitCode,
    durationMs,
    failures: failures.slice(0, FAILURES_TOLD),
    ...(inconsistent !== undefined && {
      inconsistent,
      output: (stderr || text).slice(-OUTPUT_CHARS_TOLD).toWellFormed(),
    }),
  };
}

/** In what way a report contradicts the exit code; undefined if they agree. */
function contradiction(report: TestReport | undefined, exitCode: number): string | undefined {
  if (report === undefined) return `the runner ended with ${exitCode} and wrote no complete report`;
  if (exitCode === 0 && report.failed > 0) return `the runner ended with 0 although ${report.failed} tests failed`;
  if (exitCode !== 0 && report.failed === 0) return `the runner ended with ${exitCode} although no test failed`;
  if (report.passed + report.failed + report.skipped === 0) return 'no test ran';
  return undefined;
}
