/** Formats sources. The formatter reads them in the read_only host (`plan`); the write host only writes. */
import * as z from 'zod';
import { ToolError } from '../../base/errors.ts';
import { engine, type SourceText } from '../source/checkers.ts';
import { defineTool, type ToolContext, workspacePath } from '../tool.ts';
import { changesOf, readSources, writePlanned } from './checked-sources.ts';
import { assertNoPythonSettings, formatSettings } from './format-settings.ts';
import { namedBy, plannedFile } from './planned-changes.ts';

const ENDINGS = 'ts,mts,cts,tsx,js,mjs,cjs,jsx,json,jsonc,css,scss,less,html,vue,graphql,py,pyi';
/** Formatted only if they are named: people lay out prose and settings by hand. */
const NAMED_ENDINGS = 'md,yaml,yml,toml';
const PATHS_MAX = 100;

const input = z.strictObject({
  paths: z.array(workspacePath()).min(1).max(PATHS_MAX).describe('Files and directories.'),
  check: z.boolean().default(false).describe('Only return the diffs; write nothing.'),
  engine: z
    .enum(['auto', 'builtin', 'workspace'])
    .default('auto')
    .describe("auto: the built-in formatter with the workspace's options; builtin: with its own."),
});
type Input = z.output<typeof input>;

const refusedShape = z.array(z.strictObject({ path: z.string(), reason: z.string() }));

export default defineTool({
  name: 'code_format',
  title: 'Format code',
  summary:
    'Format TypeScript, JavaScript, Python, JSON, CSS, HTML and other sources. With check: true it only shows what would change. ' +
    'All files are written or none; one undo takes them back.',
  notes:
    'The formatters are oxfmt and, for Python, ruff; options in .oxfmtrc.json or .prettierrc (JSON) hold. Where the workspace formats by a program ' +
    'of its own (prettier with code for its configuration, biome, ruff or black with settings), run that by terminal_execute.',
  isExtra: true,
  capabilities: [{ action: 'format', description: 'Formats sources, or shows what formatting would change.' }],
  category: 'code_analysis',
  tier: 'write',
  tiers: { of: ({ check }) => (check ? 'read_only' : 'write') },
  destructive: true,
  idempotent: true,
  effects: ({ paths, check }) => [
    ...paths.map((target) => ({ kind: 'read' as const, target })),
    ...(check ? [] : paths.map((target) => ({ kind: 'write' as const, target }))),
  ],
  input,
  output: z.strictObject({
    files: z
      .array(z.strictObject({ path: z.string(), diff: z.string().optional().describe('Absent if too large.') }))
      .describe('The files that formatting changes.'),
    engine: engine,
    refused: refusedShape.describe(
      'Files left as they are: a syntax error, or an error code of why they may not be read.',
    ),
  }),
  examples: [
    { input: { paths: ['lib/hello.ts'], check: true }, output: { files: [{ path: 'lib/hello.ts' }], refused: [] } },
    { input: { paths: ['lib'] }, output: { refused: [] } },
    { input: { paths: ['notes.txt'] }, error: 'UNSUPPORTED' },
    { input: { paths: ['lib'], engine: 'workspace' }, error: 'UNSUPPORTED' },
    { input: { paths: ['../x.ts'] }, error: 'ACCESS_DENIED' },
  ],

  async preview(wanted, ctx) {
    return (await formatted(wanted, ctx)).changes.preview(ctx);
  },

  before: {
    async plan(wanted, ctx) {
      const { planned, engine, refused } = await formatted(wanted, ctx);
      return { planned, engine, refused };
    },
  },

  async run(wanted, ctx) {
    const told = (files: Awaited<ReturnType<typeof writePlanned>>) => files.map(({ replacements: _, ...it }) => it);
    if (wanted.check) {
      const { changes, engine, refused } = await formatted(wanted, ctx);
      return { files: told(await changes.withDiffs(ctx)), engine, refused };
    }
    const { planned, engine, refused } = planShape.parse(ctx.planned);
    const files = told(await writePlanned(planned, namedBy(wanted.paths, FORMATTED, ctx), ctx));
    return { files, engine, refused };
  },
});

const FORMATTED = new RegExp(`\\.(${`${ENDINGS},${NAMED_ENDINGS}`.replaceAll(',', '|')})$`, 'i');

const planShape = z.strictObject({
  planned: z.array(plannedFile),
  engine: engine,
  refused: refusedShape,
});

async function formatted({ paths, engine }: Input, ctx: ToolContext) {
  if (engine === 'workspace')
    throw new ToolError('UNSUPPORTED', "the workspace's own formatter is not run by this tool", {
      suggestion: 'Run it by terminal_execute.',
    });
  const { sources, skipped } = await readSources(paths, `*.{${ENDINGS}}`, ctx);
  for (const { path } of sources) assertKnown(path);
  const { checkers } = ctx;
  const isPython = ({ path }: SourceText) => /\.pyi?$/i.test(path);
  if (engine === 'auto' && sources.some(isPython)) assertNoPythonSettings(ctx);
  const isOwn = engine !== 'auto' || (sources.length > 0 && sources.every(isPython));
  const settings = isOwn ? { options: {}, from: 'built in' } : formatSettings(ctx);
  const outcomes = await checkers.format(sources, settings.options);
  const refused = skipped.map(({ path, code }) => ({ path, reason: code as string }));
  const texts: SourceText[] = [];
  for (const [at, { path }] of sources.entries()) {
    const outcome = outcomes[at];
    if (outcome && 'text' in outcome) texts.push({ path, text: outcome.text });
    else refused.push({ path, reason: outcome?.refused ?? 'the formatter gave nothing' });
  }
  return {
    ...changesOf(sources, texts, ctx),
    engine: { ...checkers.formatterOf(sources), config: settings.from },
    refused,
  };
}

/** Throws UNSUPPORTED for a file that the formatter would silently leave unchanged. */
function assertKnown(path: string): void {
  const ending = path.slice(path.lastIndexOf('.') + 1).toLowerCase();
  if ([...ENDINGS.split(','), ...NAMED_ENDINGS.split(',')].includes(ending)) return;
  throw new ToolError('UNSUPPORTED', `there is no built-in formatter for \`${path}\``, {
    suggestion: `Formatted are: ${ENDINGS}, ${NAMED_ENDINGS}.`,
  });
}
