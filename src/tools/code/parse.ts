import * as z from 'zod';
import { ToolError } from '../../base/errors.ts';
import { defaultLimits } from '../../base/limits.ts';
import { rare } from '../rare-parameters.ts';
import { CODE_LANGUAGES } from '../source/source-code.ts';
import { SYMBOL_TYPES } from '../source/symbols.ts';
import { defineTool, workspacePath } from '../tool.ts';

const { codeCharsMax } = defaultLimits;

const line = z.int().positive();
const column = z.int().positive().describe('From 1, in UTF-16 units.');

const input = z.strictObject({
  path: workspacePath('Source file; or give `code`.').optional(),
  code: z.string().max(codeCharsMax).optional().describe('Source text, instead of `path`.'),
  language: z.enum(CODE_LANGUAGES).optional().describe('By the ending of `path` if absent; typescript for `code`.'),
  ast: rare(z.boolean().default(false).describe('Whether to give the syntax tree, too.')),
  fileName: rare(z.string().max(4096).optional().describe('Name for `code`; its ending tells the language.')),
});

export default defineTool({
  name: 'code_parse',
  title: 'Parse a source file',
  summary:
    'Show what one source declares, imports and exports, with its syntax errors (TypeScript, JavaScript, Python, Go, Rust).',
  notes:
    'By syntax alone: nothing is resolved and nothing runs. Local variables of functions are left out. Methods count as functions, structs as classes.',
  version: '1.0.0',
  capabilities: [{ action: 'parse', description: 'Lists symbols, imports, exports and syntax errors of a source.' }],
  category: 'code_analysis',
  tier: 'read_only',
  isExtra: true,
  idempotent: true,
  cacheable: true,
  effects: ({ path }) => (path === undefined ? [] : [{ kind: 'read', target: path }]),
  input,
  output: z.strictObject({
    language: z.enum(CODE_LANGUAGES),
    symbols: z.array(z.strictObject({ name: z.string(), type: z.enum(SYMBOL_TYPES), line, column, endLine: line })),
    imports: z.array(
      z.strictObject({
        module: z.string().describe('As it is written.'),
        line,
        names: z.array(z.string()).describe('`*` for all, `default` for the default export.'),
        kind: z.enum(['static', 'dynamic', 'reexport', 'require']),
        typeOnly: z.boolean().describe('Whether nothing is imported at run time.'),
      }),
    ),
    exports: z.array(
      z.strictObject({
        name: z.string(),
        line,
        typeOnly: z.boolean(),
        from: z.string().optional().describe('The module whose export is passed on.'),
      }),
    ),
    errors: z.array(z.strictObject({ line, column, message: z.string() })),
    ast: z
      .array(
        z.strictObject({
          kind: z.string().describe('Kind of node in the tree-sitter grammar.'),
          depth: z.int().nonnegative(),
          parent: z
            .int()
            .nonnegative()
            .optional()
            .describe('Index in this list of the node that holds it; absent for the root.'),
          line,
          endLine: line,
          text: z.string().optional().describe('Of nodes without named nodes in them, cut at 80 characters.'),
        }),
      )
      .optional()
      .describe('The tree: named nodes, each after the one that holds it.'),
    truncated: z.boolean().describe('Whether a list is cut.'),
  }),
  examples: [
    {
      input: { path: 'lib/hello.ts' },
      output: {
        language: 'typescript',
        symbols: [{ name: 'greet', type: 'function', line: 1, column: 17, endLine: 1 }],
        imports: [],
        exports: [{ name: 'greet', line: 1, typeOnly: false }],
        errors: [],
        truncated: false,
      },
    },
    {
      input: { code: 'import os\n', language: 'python' },
      output: { imports: [{ module: 'os', line: 1, names: ['*'], kind: 'static', typeOnly: false }] },
    },
    { input: { path: 'notes.txt' }, error: 'UNSUPPORTED' },
    { input: {}, error: 'INPUT_INVALID' },
  ],
  aliases: [
    {
      name: 'parse_typescript',
      input: input.pick({ code: true }).required().extend({ filePath: input.shape.fileName }),
      toInput: ({ code, filePath }) => ({ code, fileName: filePath, ast: true }),
    },
    {
      name: 'analyze_ast',
      input: input.pick({ code: true, language: true }).required({ code: true }),
      toInput: (it) => ({ ...it, ast: true }),
    },
  ],

  async run(query, ctx) {
    if ((query.path === undefined) === (query.code === undefined))
      throw new ToolError('INPUT_INVALID', 'code_parse takes either `path` or `code`');
    return ctx.code.parse(query);
  },
});
