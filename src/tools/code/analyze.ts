import * as z from 'zod';
import { assertSearch, searchHealth } from '../search-program.ts';
import { CODE_CHECKS, SEVERITIES } from '../source/analysis.ts';
import { defineTool, workspacePath } from '../tool.ts';

const file = z.string().describe('Relative to the workspace root.');
const line = z.int().positive();
const column = line.describe('From 1, in UTF-16 units.');
const count = z.int().nonnegative();

const input = z.strictObject({
  path: workspacePath('Source file or directory.').default('.'),
  checks: z.array(z.enum(CODE_CHECKS)).min(1).max(4).default(['complexity']).describe('What to look for.'),
  top: z.int().min(1).max(500).default(20).describe('Functions and duplicates listed, the worst first.'),
  threshold: z.int().min(1).max(1000).optional().describe('List only functions at least this complex.'),
});

export default defineTool({
  name: 'code_analyze',
  title: 'Analyze code',
  summary:
    'Measure code: complexity of functions, duplicates, dependencies of a file or directory, and patterns that are often unsafe.',
  notes:
    'TypeScript, JavaScript, Python, Go and Rust; by syntax alone, so that a value that goes through a variable is not followed. A function does not count what is in the functions in it. docs/how-to/code-tools.md says how many seeded faults the security rules find.',
  version: '1.0.0',
  capabilities: [
    { action: 'complexity', description: 'Measures complexity and maintainability of each function.' },
    { action: 'duplicates', description: 'Finds code that occurs twice.' },
    { action: 'security', description: 'Finds patterns of code that are often unsafe.' },
  ],
  category: 'code_analysis',
  tier: 'read_only',
  isExtra: true,
  initialize: assertSearch,
  healthCheck: searchHealth,
  idempotent: true,
  cacheable: true,
  // Dependencies lie anywhere in the workspace.
  effects: ({ path, checks }) => [
    { kind: 'read', target: path },
    ...(checks.includes('dependencies') && path !== '.' ? [{ kind: 'read', target: '.' } as const] : []),
  ],
  input,
  output: z.strictObject({
    files: count.describe('Sources that were read.'),
    complexity: z
      .strictObject({
        average: z.number().describe('Of cyclomatic complexity.'),
        max: count,
        maintainability: count.describe('Mean of the functions.'),
        totalFunctions: count,
        functions: z
          .array(
            z.strictObject({
              name: z.string(),
              file,
              line,
              column,
              cyclomatic: count.describe('Ways through the function.'),
              cognitive: count.describe('How hard it is to read; what is nested counts more.'),
              maintainability: count.describe(
                'Index from 0 to 100, higher is better: by size, vocabulary and complexity.',
              ),
              lines: count,
              parameters: count,
            }),
          )
          .describe('The hardest to read first.'),
      })
      .optional(),
    duplicates: z
      .array(
        z.strictObject({
          file1: file,
          line1: line,
          file2: file,
          line2: line,
          lines: count,
          similarity: z.number().describe('Share of equal tokens, 0.8 to 1.'),
        }),
      )
      .optional()
      .describe('The longest first.'),
    dependencies: z
      .strictObject({
        direct: z.array(file).describe('Files elsewhere that are imported.'),
        transitive: z.array(file).describe('Files that those import.'),
        external: z.array(z.string()).describe('Packages.'),
        cycles: z.array(z.array(file)),
      })
      .optional(),
    security: z
      .array(
        z.strictObject({ severity: z.enum(SEVERITIES), rule: z.string(), message: z.string(), file, line, column }),
      )
      .optional()
      .describe('The worst first.'),
    truncated: z.boolean().describe('Whether files or findings are left out.'),
    skipped: z.array(file).describe('Files that could not be parsed.'),
  }),
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
