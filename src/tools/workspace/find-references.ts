import * as z from 'zod';
import { ToolError } from '../../base/errors.ts';
import { rare } from '../rare-parameters.ts';
import { searches } from '../search-program.ts';
import { foundReference, foundSymbol, PRECISIONS } from '../source/symbols.ts';
import { defineTool, workspacePath } from '../tool.ts';

const input = z.strictObject({
  symbol: z
    .string()
    .trim()
    .min(1)
    .max(256)
    .regex(/^[\p{L}\p{N}_$#]+$/u, 'must be one bare name, as save; which one is meant is said by file and line')
    .describe('Bare name, without class or module.'),
  file: workspacePath('A file that names the one meant.').optional(),
  line: z.int().positive().optional().describe('Line in file.'),
  maxResults: rare(z.int().min(1).max(2000).default(200).describe('Most references returned.')),
});

export default defineTool({
  ...searches,
  name: 'workspace_find_references',
  title: 'Find references',
  summary:
    'Find uses and declarations of a symbol: TypeScript and JavaScript by their language server; Python, Rust and Go by name.',
  notes:
    'Without file and line: of all symbols with that name. `definitions` says which symbols were followed where no file was said.',
  capabilities: [{ action: 'references', description: 'Finds the uses and declarations of a symbol.' }],
  category: 'code_analysis',
  effects: ({ file }) => [
    { kind: 'read', target: '.' },
    ...(file === undefined ? [] : [{ kind: 'read' as const, target: file }]),
  ],
  input,
  output: z.strictObject({
    references: z.array(foundReference),
    totalReferences: z.int().nonnegative(),
    definitions: z
      .array(foundSymbol)
      .describe('The symbols that were followed if no file was given; several if they share the name.'),
    precision: z.enum(PRECISIONS).describe('Semantic: exactly this symbol. Syntactic: everything of this name.'),
    truncated: z.boolean().describe('Whether there may be more.'),
    skipped: z.array(z.string()).optional().describe('Files that could not be parsed.'),
    warning: z.string().optional().describe('Why no language server could help.'),
  }),
  examples: [
    {
      input: { symbol: 'greet' },
      output: {
        references: [
          { file: 'lib/hello.ts', line: 1, column: 17, context: "export function greet() { return 'hello'; }" },
          { file: 'lib/main.ts', line: 1, column: 10, context: "import { greet } from './hello.ts';" },
          { file: 'lib/main.ts', line: 2, column: 1, context: 'greet();' },
        ],
        totalReferences: 3,
        precision: 'semantic',
        truncated: false,
      },
    },
    { input: { symbol: 'nobody' }, error: 'NOT_FOUND' },
    { input: { symbol: 'TOKEN', file: '.env' }, error: 'SENSITIVE_FILE' },
    { input: { symbol: 'root', file: '/etc/passwd' }, error: 'ACCESS_DENIED' },
  ],
  aliases: ['find_references', 'find_refs'].map((name) => ({ name, input })),

  async run(query, ctx) {
    if (query.line !== undefined && query.file === undefined)
      throw new ToolError('INPUT_INVALID', 'line is given without file', {
        suggestion: 'Give the file of that line too.',
      });
    const { total, skipped, ...found } = await ctx.symbols.references(query);
    return { ...found, totalReferences: total, ...(skipped.length > 0 && { skipped }) };
  },
});
