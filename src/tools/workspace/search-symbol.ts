import * as z from 'zod';
import { rare } from '../rare-parameters.ts';
import { searches } from '../search-program.ts';
import { foundSymbol, PRECISIONS, SYMBOL_TYPES } from '../source/symbols.ts';
import { defineTool } from '../tool.ts';

export default defineTool({
  ...searches,
  name: 'workspace_search_symbol',
  title: 'Search symbols',
  summary:
    'Find where functions, classes, types and variables are declared (TypeScript, JavaScript, Python, Rust, Go).',
  notes:
    'TypeScript and JavaScript by their language server; Python, Rust and Go by their syntax. Leaves out what .gitignore does. Exact names come first.',
  capabilities: [{ action: 'search', description: 'Finds where symbols are declared, by name.' }],
  category: 'code_analysis',
  effects: () => [{ kind: 'read', target: '.' }],
  input: z.strictObject({
    query: z
      .string()
      .trim()
      .min(1)
      .max(256)
      .regex(/^[^\s\p{Cc}]+$/u, 'must be a name, without spaces')
      .describe('Name or part of it, in any case.'),
    type: z
      .enum([...SYMBOL_TYPES, 'any'])
      .default('any')
      .describe('Methods are functions, fields variables.'),
    maxResults: rare(z.int().min(1).max(500).default(50).describe('Most symbols returned.')),
  }),
  output: z.strictObject({
    symbols: z.array(foundSymbol),
    totalResults: z.int().nonnegative(),
    precision: z.enum(PRECISIONS).describe('Syntactic: found by a parser alone.'),
    truncated: z.boolean().describe('Whether there may be more.'),
    skipped: z.array(z.string()).optional().describe('Files that could not be parsed.'),
    warning: z.string().optional().describe('Why no language server could help.'),
  }),
  examples: [
    {
      input: { query: 'greet' },
      output: {
        symbols: [
          {
            name: 'greet',
            type: 'function',
            file: 'lib/hello.ts',
            line: 1,
            preview: "export function greet() { return 'hello'; }",
          },
        ],
        totalResults: 1,
        precision: 'semantic',
        truncated: false,
      },
    },
    { input: { query: 'no such' }, error: 'INPUT_INVALID' },
  ],

  async run({ type, ...query }, ctx) {
    const { total, skipped, ...found } = await ctx.symbols.find({ ...query, ...(type !== 'any' && { type }) });
    return { ...found, totalResults: total, ...(skipped.length > 0 && { skipped }) };
  },
});
