import type { ErrorObject } from 'ajv';
import * as z from 'zod';
import { ToolError } from '../../base/errors.ts';
import { type DataFormat, type DataText, loadParsers, readData } from '../data-text.ts';
import { toText } from '../file-text.ts';
import { defineTool, type ToolContext, workspacePath } from '../tool.ts';

const ERRORS_MAX = 100;
const MESSAGE_CHARS_MAX = 300;
/** The most characters of a schema; ajv generates about ten times as much code. */
const SCHEMA_CHARS_MAX = 128 * 1024;

const input = z.strictObject({
  data: z
    .string()
    .max(1024 * 1024)
    .optional()
    .describe('The text to check.'),
  path: workspacePath('A file to check instead, relative to the workspace root.').optional(),
  format: z
    .enum(['json', 'jsonc', 'yaml', 'toml'])
    .optional()
    .describe('Format of the text (default: by file name, else json).'),
  schema: z
    .record(z.string().max(1024), z.unknown())
    .optional()
    .describe('JSON Schema 2020-12 for the data; only local $ref; format is not checked.'),
});

type ValidationFailure = z.output<typeof failure>;
const failure = z.strictObject({
  path: z.string().describe('JSON Pointer to the value; empty for the whole.'),
  message: z.string(),
  line: z.int().positive().optional(),
  column: z.int().positive().optional(),
});

export default defineTool({
  name: 'data_validate',
  title: 'Validate data',
  summary:
    'Check that a text or workspace file is well-formed JSON, JSONC, YAML or TOML, and optionally that it fits a JSON Schema (2020-12). ' +
    'Returns problems with line and column (TOML: of syntax only). At most 1 MB and 100 problems.',
  isExtra: true,
  capabilities: [
    { action: 'validate', description: 'Reports where a JSON, JSONC, YAML or TOML text is malformed.' },
    { action: 'check_schema', description: 'Checks the text against a JSON Schema.' },
  ],
  category: 'validation',
  tier: 'read_only',
  idempotent: true,
  cacheable: true,
  effects: ({ path }) => (path === undefined ? [] : [{ kind: 'read', target: path }]),
  input,
  output: z.strictObject({
    valid: z.boolean(),
    errors: z.array(failure),
    truncated: z.boolean().describe('Whether there were more errors.'),
  }),
  examples: [
    { input: { path: 'notes.txt', format: 'yaml' }, output: { valid: true, errors: [] } },
    {
      input: { data: '{"a": "x"}', schema: { properties: { a: { type: 'number' } } } },
      output: { valid: false, errors: [{ path: '/a', message: 'must be number', line: 1, column: 7 }] },
    },
    { input: { data: '{}', schema: { $ref: 'https://example.com/x' } }, error: 'INPUT_INVALID' },
    { input: {}, error: 'INPUT_INVALID' },
  ],
  aliases: [{ name: 'validate_json', input }],

  async run({ data, path, format, schema }, ctx) {
    if ((data === undefined) === (path === undefined))
      throw new ToolError('INPUT_INVALID', 'give exactly one of data and path');
    const text = data ?? read(path as string, ctx);
    const [parsers, ajv] = await Promise.all([loadParsers(), schema && import('ajv/dist/2020.js')]);
    const errors = ctx.bounded(() => {
      const read = readData(text, format ?? formatOf(path), parsers);
      if (read.problems.length > 0) return read.problems.map((it): ValidationFailure => ({ path: '', ...it }));
      return ajv && schema ? misfits(read, schema, ajv.Ajv2020) : [];
    }, VALIDATION);
    return {
      valid: errors.length === 0,
      errors: errors.slice(0, ERRORS_MAX).map((it) => ({ ...it, message: it.message.slice(0, MESSAGE_CHARS_MAX) })),
      truncated: errors.length > ERRORS_MAX,
    };
  },
});

function read(path: string, ctx: ToolContext): string {
  const limit = ctx.limits.validateBytesMax;
  using file = ctx.open(path);
  if (file.size > limit)
    throw new ToolError('FILE_LIMIT', `\`${path}\` is ${file.size} bytes; at most ${limit} are validated`, {
      details: { limit, used: file.size, enforcedBy: 'tool' },
    });
  return toText(file, file.bytes(), 'utf-8').text;
}

const FORMATS: Record<string, DataFormat> = { jsonc: 'jsonc', json5: 'jsonc', yaml: 'yaml', yml: 'yaml', toml: 'toml' };
/** A pattern such as `^(a+)+$` may run for ever on some texts, and so may compiling a schema. */
const VALIDATION = {
  what: 'the validation',
  suggestion: 'Avoid nested repetition such as ^(a+)+$ in patterns of the schema, or check less at once.',
};

/** Files of these names may have comments, although they end with .json. */
const COMMENTED = /(^|\/)(tsconfig[^/]*|jsconfig[^/]*|settings|launch|extensions|tasks)\.json$/;

function formatOf(path = ''): DataFormat {
  if (COMMENTED.test(path)) return 'jsonc';
  return FORMATS[path.slice(path.lastIndexOf('.') + 1).toLowerCase()] ?? 'json';
}

function misfits(
  { value, spotOf }: DataText,
  schema: Record<string, unknown>,
  Ajv: typeof import('ajv/dist/2020.js').Ajv2020,
): ValidationFailure[] {
  if (JSON.stringify(schema).length > SCHEMA_CHARS_MAX)
    throw new ToolError('INPUT_INVALID', `schema is longer than ${SCHEMA_CHARS_MAX} characters`);
  const validate = compile(schema, Ajv);
  try {
    if (validate(value)) return [];
  } catch (error) {
    // A recursive schema goes as deep as the data, and YAML aliases may be circular.
    if (!(error instanceof RangeError)) throw error;
    return [{ path: '', message: 'nested too deep, or within itself, to be checked against this schema' }];
  }
  return (validate.errors ?? []).slice(0, ERRORS_MAX + 1).map((error) => {
    const steps = error.instancePath
      .split('/')
      .slice(1)
      .map((it) => it.replaceAll('~1', '/').replaceAll('~0', '~'));
    return { path: error.instancePath, message: messageOf(error), ...spotOf(steps) };
  });
}

function compile(schema: Record<string, unknown>, Ajv: typeof import('ajv/dist/2020.js').Ajv2020) {
  const ajv = new Ajv({ allErrors: true, strict: false, validateFormats: false, logger: false });
  try {
    return ajv.compile(schema);
  } catch (error) {
    // Ajv's own error about the schema; the end of a time bound can't be caught here.
    throw new ToolError(
      'INPUT_INVALID',
      `schema can't be used: ${(error as Error).message.slice(0, MESSAGE_CHARS_MAX)}`,
      {
        suggestion: 'It must be a JSON Schema of 2020-12 whose references all lie within it.',
      },
    );
  }
}

function messageOf({ message = 'does not fit', params, keyword }: ErrorObject): string {
  if (keyword === 'additionalProperties') return `${message}: ${JSON.stringify(params.additionalProperty)}`;
  if (keyword === 'unevaluatedProperties') return `${message}: ${JSON.stringify(params.unevaluatedProperty)}`;
  if (keyword === 'enum') return `${message}: ${JSON.stringify(params.allowedValues)}`;
  if (keyword === 'const') return `${message} ${JSON.stringify(params.allowedValue)}`;
  return message;
}
