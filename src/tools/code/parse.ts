import * as z from 'zod';
import { ToolError } from '../../base/errors.ts';
import { defaultLimits } from '../../base/limits.ts';
import { rare } from '../rare-parameters.ts';
import { CODE_LANGUAGES, parsedCode } from '../source/source-code.ts';
import { defineTool, workspacePath } from '../tool.ts';

const { codeCharsMax } = defaultLimits;

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
  capabilities: [{ action: 'parse', description: 'Lists symbols, imports, exports and syntax errors of a source.' }],
  category: 'code_analysis',
  tier: 'read_only',
  isExtra: true,
  idempotent: true,
  cacheable: true,
  effects: ({ path }) => (path === undefined ? [] : [{ kind: 'read', target: path }]),
  input,
  output: parsedCode,
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
