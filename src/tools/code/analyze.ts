import * as z from 'zod';
import { searches } from '../search-program.ts';
import { analysis, CODE_CHECKS } from '../source/analysis.ts';
import { defineTool, workspacePath } from '../tool.ts';

const input = z.strictObject({
  path: workspacePath('Source file or directory.').default('.'),
  checks: z.array(z.enum(CODE_CHECKS)).min(1).max(4).default(['complexity']).describe('What to look for.'),
  top: z.int().min(1).max(500).default(20).describe('Functions and duplicates listed, the worst first.'),
  threshold: z.int().min(1).max(1000).optional().describe('List only functions at least this complex.'),
});

export default defineTool({
  ...searches,
  name: 'code_analyze',
  title: 'Analyze code',
  summary:
    'Measure code: complexity of functions, duplicates, dependencies of a file or directory, and patterns that are often unsafe.',
  notes:
    'TypeScript, JavaScript, Python, Go and Rust; by syntax alone, so that a value that goes through a variable is not followed. A function does not count what is in the functions in it. docs/how-to/code-tools.md says how many seeded faults the security rules find.',
  capabilities: [
    { action: 'complexity', description: 'Measures complexity and maintainability of each function.' },
    { action: 'duplicates', description: 'Finds code that occurs twice.' },
    { action: 'security', description: 'Finds patterns of code that are often unsafe.' },
  ],
  category: 'code_analysis',
  isExtra: true,
  cacheable: true,
  // Dependencies lie anywhere in the workspace.
  effects: ({ path, checks }) => [
    { kind: 'read', target: path },
    ...(checks.includes('dependencies') && path !== '.' ? [{ kind: 'read', target: '.' } as const] : []),
  ],
  input,
  output: analysis,
  examples: [
    {
      input: { path: 'lib/hello.ts' },
      output: {
        files: 1,
        complexity: {
          average: 1,
          max: 1,
          maintainability: 90,
          totalFunctions: 1,
          functions: [
            {
              name: 'greet',
              file: 'lib/hello.ts',
              line: 1,
              column: 8,
              cyclomatic: 1,
              cognitive: 0,
              maintainability: 90,
              lines: 1,
              parameters: 0,
            },
          ],
        },
      },
    },
    { input: { path: 'lib', checks: ['security', 'duplicates'] }, output: { security: [], duplicates: [] } },
    { input: { path: 'notes.txt' }, error: 'UNSUPPORTED' },
    { input: { path: '../' }, error: 'ACCESS_DENIED' },
  ],
  aliases: [
    {
      name: 'calculate_metrics',
      input: input.omit({ checks: true }),
      toInput: (it) => ({ ...it, checks: ['complexity'] }),
    },
  ],

  run: (query, ctx) => ctx.code.analyze(query),
});
