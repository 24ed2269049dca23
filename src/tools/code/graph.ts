import * as z from 'zod';
import { rare } from '../rare-parameters.ts';
import { searches } from '../search-program.ts';
import { GRAPH_VIEWS, importGraph } from '../source/source-code.ts';
import { defineTool, workspacePath } from '../tool.ts';

export default defineTool({
  ...searches,
  name: 'code_graph',
  title: 'Show who imports whom',
  summary:
    'Show the imports between source files: circles, what a file imports, who imports it, what is not found, what may be unused.',
  notes:
    'Names are resolved by tsconfig paths, package.json and the packages of the workspace, or by the rules of Python, Go and Rust. Configuration above `path`, and all outside of the workspace, is not read. Imports of types alone are marked, and make no circle unless `types` is true. `summary` shows the 20 files that most others import.',
  capabilities: [
    { action: 'cycles', description: 'Finds files that import each other in a circle.' },
    { action: 'importers', description: 'Shows what imports a file, directly and through others.' },
    { action: 'unused', description: 'Names files and exports that may be unused.' },
  ],
  category: 'code_analysis',
  isExtra: true,
  effects: ({ path }) => [{ kind: 'read', target: path }],
  input: z.strictObject({
    path: workspacePath('Directory.').default('.'),
    show: z.enum(GRAPH_VIEWS).default('summary').describe('What to show.'),
    file: workspacePath('Where imports or importers begin; relative to the workspace root.').optional(),
    depth: z.int().min(1).max(50).default(3).describe('Steps from `file`.'),
    types: rare(z.boolean().default(false).describe('Whether imports of types alone count for circles.')),
  }),
  output: importGraph,
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

  run: (query, ctx) => ctx.code.graph(query),
});
