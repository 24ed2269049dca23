/**
 * Lints sources. The built-in linter reads them in the read_only host, also for `fix` (`plan`): the write host only
 * writes. The workspace's own linter is a command.
 */
import * as z from 'zod';
import { ToolError } from '../../base/errors.ts';
import { rare } from '../rare-parameters.ts';
import { type Engine, engine, type LintIssue, lintIssue } from '../source/checkers.ts';
import { defineTool, type ToolContext, workspacePath } from '../tool.ts';
import { changesOf, readSources, writePlanned } from './checked-sources.ts';
import { namedBy, plannedFile } from './planned-changes.ts';
import { engineOf, findLinter, isInstalled, LINTERS, lintCommand, readReport } from './workspace-programs.ts';

const SOURCES = '*.{ts,mts,cts,tsx,js,mjs,cjs,jsx,vue,svelte,astro,py,pyi}';
const PATHS_MAX = 100;

const input = z.strictObject({
  paths: z.array(workspacePath()).min(1).max(PATHS_MAX).describe('Files and directories.'),
  fix: z.boolean().default(false).describe('Mend what can be mended without changing what the code does.'),
  engine: z
    .enum(['auto', 'builtin', 'workspace'])
    .default('auto')
    .describe("auto: the workspace's own linter if it has one and the policy allows it without a question."),
  linters: rare(
    z
      .array(z.enum(LINTERS))
      .min(1)
      .max(LINTERS.length)
      .optional()
      .describe(
        "The workspace's own that are run, one after the other (default: the one that is configured); those that it does not have are in skipped.",
      ),
  ),
});
type Input = z.output<typeof input>;

const output = z.strictObject({
  issues: z.array(lintIssue).describe('What is left to do; the first of them, by file and line.'),
  totalIssues: z.int().nonnegative(),
  fixed: z.int().nonnegative(),
  diff: z.string().optional().describe('What fix changed; absent if nothing or too large.'),
  engine,
  skipped: z.array(z.strictObject({ path: z.string(), code: z.string() })),
});

const isCommand = ({ engine, linters }: Input): boolean => engine === 'workspace' && linters !== undefined;
const commandsOf = (it: Input): string[] =>
  isCommand(it) ? (it.linters ?? []).map((linter) => lintCommand(linter, it.paths)) : [];

export default defineTool({
  name: 'code_lint',
  title: 'Lint code',
  summary:
    "Find faults in TypeScript, JavaScript and Python by a linter: a built-in one, or the workspace's own with its rules, which is " +
    'a command. With fix: true, all that can be mended is written at once; one undo takes it back.',
  notes:
    "The built-in linters are oxlint and, for Python, ruff, with rules of ours; nothing of the workspace runs. The workspace's own eslint, biome or " +
    'oxlint runs as any command does: policy, approval, sandbox and log; so do prettier, ruff and black (of .venv) and clippy, if linters names them. They only report; fix is for the built-in ones.',
  isExtra: true,
  version: '1.1.0',
  capabilities: [{ action: 'lint', description: 'Finds faults in TypeScript, JavaScript and Python, and mends some.' }],
  category: 'code_analysis',
  tier: 'execute',
  tiers: { of: (it) => (isCommand(it) ? 'execute' : it.fix ? 'write' : 'read_only') },
  destructive: true,
  effects: (it) => [
    ...it.paths.map((target) => ({ kind: 'read' as const, target })),
    ...(it.fix ? it.paths.map((target) => ({ kind: 'write' as const, target })) : []),
    ...commandsOf(it).map((target) => ({ kind: 'exec' as const, target })),
  ],
  commandOf: (it) => (isCommand(it) ? { command: commandsOf(it).join('; '), cwd: '.', env: {} } : undefined),
  input,
  output,
  examples: [
    { input: { paths: ['lib'] }, output: { issues: [], totalIssues: 0, fixed: 0 } },
    { input: { paths: ['lib/main.ts'], fix: true }, output: { fixed: 0 } },
    { input: { paths: ['lib'], engine: 'workspace' }, error: 'UNSUPPORTED' },
    { input: { paths: ['lib/gone.ts'] }, error: 'NOT_FOUND' },
    { input: { paths: ['/etc'] }, error: 'ACCESS_DENIED' },
  ],
  spellings: { names: { path: 'paths', linter: 'linters' } },

  before: {
    resolve(wanted, ctx) {
      const { engine, fix } = wanted;
      const found = engine === 'builtin' || fix ? undefined : findLinter(ctx);
      const linters = wanted.linters ?? (found && [found]);
      if (engine === 'builtin' || linters === undefined) return Promise.resolve([]);
      const own = { ...wanted, engine: 'workspace' as const, linters };
      const isFree = engine === 'auto' && !fix && !wanted.linters;
      return Promise.resolve(isFree ? [own, { ...wanted, engine: 'builtin' as const }] : [own]);
    },
    plan: async (wanted, ctx) => (isCommand(wanted) || wanted.engine === 'workspace' ? null : builtIn(wanted, ctx)),
  },

  async run(wanted, ctx) {
    if (wanted.engine === 'workspace') return byWorkspace(wanted, ctx);
    const { planned, ...result } = wanted.fix ? planShape.parse(ctx.planned) : await builtIn(wanted, ctx);
    if (!wanted.fix) return result;
    const changed = await writePlanned(planned, namedBy(wanted.paths, LINTED, ctx), ctx);
    const diff = changed.map((it) => it.diff ?? '').join('');
    return { ...result, ...(diff !== '' && { diff }) };
  },
});

const LINTED = new RegExp(`\\.(${SOURCES.slice(3, -1).replaceAll(',', '|')})$`, 'i');

/** The result of the read_only host, and the files that fixing changes. */
const planShape = output.extend({ planned: z.array(plannedFile) });

async function builtIn({ paths, fix }: Input, ctx: ToolContext) {
  const { sources, skipped } = await readSources(paths, SOURCES, ctx);
  for (const { path } of sources) assertLinted(path);
  if (sources.length + skipped.length === 0) throw unlinted(paths.join(', '));
  const { checkers } = ctx;
  const { issues, texts, fixed } = await checkers.lint(sources, { fix });
  const { planned } = changesOf(sources, texts, ctx);
  return { ...shown(issues, ctx), fixed, engine: checkers.linterOf(sources), skipped, planned };
}

/** Throws UNSUPPORTED for a file that no linter reads: it would seem to have no faults. */
function assertLinted(path: string): void {
  if (!LINTED.test(path)) throw unlinted(path);
}

const unlinted = (path: string) =>
  new ToolError('UNSUPPORTED', `there is nothing at \`${path}\` that a built-in linter reads`, {
    suggestion: `Linted are: ${SOURCES}. For Rust name linters: ["clippy"]; run others by terminal_execute.`,
  });

async function byWorkspace({ paths, fix, linters = [] }: Input, ctx: ToolContext) {
  if (fix)
    throw new ToolError(
      'UNSUPPORTED',
      "the workspace's own linter only reports here, so that each change can be undone",
      {
        suggestion: 'Use engine: builtin with fix, or run the linter by terminal_execute.',
      },
    );
  const there = linters.filter((it) => isInstalled(it, ctx));
  if (there.length === 0)
    throw new ToolError(
      'UNSUPPORTED',
      `the workspace has no configured and installed linter (${(linters.length > 0 ? linters : LINTERS).join(', ')})`,
      { suggestion: 'Use engine: builtin.' },
    );
  const issues: LintIssue[] = [];
  for (const it of there) {
    const command = ctx.command({ command: lintCommand(it, paths), cwd: '.', env: {}, report: '-' });
    issues.push(...readReport(it, await ctx.run(command), { workspace: ctx.workspace, paths }));
  }
  const missing = linters.filter((it) => !there.includes(it));
  const skipped = missing.map((path) => ({ path, code: 'UNSUPPORTED' }));
  return { ...shown(issues, ctx), fixed: 0, engine: allOf(there.map((it) => engineOf(it, ctx))), skipped };
}

const allOf = (engines: readonly Engine[]): Engine => ({
  name: engines.map((it) => it.name).join(', '),
  version: engines.map((it) => it.version).join(', '),
  config: engines.map((it) => it.config).join(', '),
});

const shown = (issues: readonly LintIssue[], { limits }: ToolContext) => ({
  issues: issues.slice(0, limits.lintIssuesMax),
  totalIssues: issues.length,
});
