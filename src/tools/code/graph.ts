import * as z from 'zod';
import { rare } from '../rare-parameters.ts';
import { assertSearch, searchHealth } from '../search-program.ts';
import { GRAPH_VIEWS } from '../source/source-code.ts';
import { defineTool, workspacePath } from '../tool.ts';

const file = z.string().describe('Relative to the workspace root.');
const line = z.int().positive();

export default defineTool({
  name: 'code_graph',
  title: 'Show who imports whom',
  summary:
    'Show the imports between source files: circles, what a file imports, who imports it, what is not found, what may be unused.',
  notes:
    'Names are resolved by tsconfig paths, package.json and the packages of the workspace, or by the rules of Python, Go and Rust. Configuration above `path`, and all outside of the workspace, is not read. Imports of types alone are marked, and make no circle unless `types` is true. `summary` shows the 20 files that most others import.',
  version: '1.0.0',
  capabilities: [
    { action: 'cycles', description: 'Finds files that import each other in a circle.' },
    { action: 'importers', description: 'Shows what imports a file, directly and through others.' },
    { action: 'unused', description: 'Names files and exports that may be unused.' },
  ],
  category: 'code_analysis',
  tier: 'read_only',
  isExtra: true,
  initialize: assertSearch,
  healthCheck: searchHealth,
  idempotent: true,
  effects: ({ path }) => [{ kind: 'read', target: path }],
  input: z.strictObject({
    path: workspacePath('Directory.').default('.'),
    show: z.enum(GRAPH_VIEWS).default('summary').describe('What to show.'),
    file: workspacePath('Where imports or importers begin; relative to the workspace root.').optional(),
    depth: z.int().min(1).max(50).default(3).describe('Steps from `file`.'),
    types: rare(z.boolean().default(false).describe('Whether imports of types alone count for circles.')),
  }),
  output: z.strictObject({
    nodes: z.array(file).describe('Files that are shown.'),
    edges: z.array(
      z.strictObject({ from: file, to: file, line: line.describe('Of the first import.'), typeOnly: z.boolean() }),
    ),
    cycles: z
      .array(z.array(file))
      .describe('Circles, in the order of the imports; each file of one is in one of these.'),
    unresolved: z.array(z.strictObject({ file, line, module: z.string(), reason: z.string() })),
    external: z.array(z.string()).describe('Packages and modules of others that are imported.'),
    unusedFiles: z.array(z.strictObject({ file, reason: z.string() })).describe('What may be unused, and why.'),
    unusedExports: z.array(z.strictObject({ file, line, name: z.string(), reason: z.string() })),
    totals: z
      .strictObject({
        files: z.int(),
        edges: z.int(),
        cycles: z.int(),
        unresolved: z.int(),
        external: z.int(),
      })
      .describe('Counts of the whole graph.'),
    truncated: z.boolean().describe('Whether files or entries are left out.'),
    skipped: z.array(file).describe('Files that could not be parsed.'),
  }),
  examples: [
    {
      input: { path: 'lib', show: 'imports', file: 'lib/main.ts' },
      output: {
        nodes: ['lib/main.ts', 'lib/hello.ts'],
        edges: [{ from: 'lib/main.ts', to: 'lib/hello.ts', line: 1, typeOnly: false }],
        cycles: [],
        unresolved: [],
      },
    },
    { input: { show: 'importers' }, error: 'INPUT_INVALID' },
    { input: { path: '../' }, error: 'ACCESS_DENIED' },
  ],
  aliases: [],

  run: (query, ctx) => ctx.code.graph(query),
});
