import * as z from 'zod';
import { CODES, type Code, ToolError, toToolError } from '../../base/errors.ts';
import { headOf, toText } from '../file-text.ts';
import { glob } from '../path-parameters.ts';
import { defineTool, type ToolContext, workspacePath } from '../tool.ts';

const input = z.strictObject({
  paths: z
    .array(workspacePath('A path relative to the workspace root.'))
    .min(1)
    .max(500)
    .optional()
    .describe('Paths of files, relative to the workspace root.'),
  pattern: glob('Glob of the files instead, as in file_glob: src/**/*.ts.').optional(),
  maxBytesEach: z
    .int()
    .min(1)
    .max(4 * 1024 * 1024)
    .default(256 * 1024)
    .describe('Bytes of each file that are returned; the rest is cut.'),
  maxFiles: z.int().min(1).max(500).default(100).describe('Most files read.'),
});

const file = z.strictObject({
  path: z.string(),
  content: z.string(),
  size: z.int().nonnegative().describe('Bytes in the whole file.'),
  hash: z.string().describe('sha256: and 64 hex digits, of the whole file.'),
  modifiedAt: z.string().describe('ISO 8601.'),
  truncated: z.boolean().describe('Whether content is only its beginning.'),
  decoded: z.string().optional().describe('Encoding of the file, and how it is known, if it is not UTF-8.'),
});
const failure = z.strictObject({
  path: z.string(),
  code: z.enum(Object.keys(CODES) as [Code, ...Code[]]),
  message: z.string(),
});

export default defineTool({
  name: 'file_read_many',
  title: 'Read several files',
  summary:
    'Read up to 100 text files of the workspace in one call, by paths or by a glob. A file that can not or may not be read is told ' +
    'in errors and does not fail the rest. At most 4 MB in all and 256 KB of each; file_read reads one file by lines.',
  isExtra: true,
  capabilities: [{ action: 'read', description: 'Reads several files in one call.' }],
  category: 'filesystem',
  tier: 'read_only',
  idempotent: true,
  cacheable: true,
  effects: ({ paths, pattern }) => [
    ...(paths ?? []).map((target) => ({ kind: 'read', target }) as const),
    ...(pattern === undefined && paths ? [] : [{ kind: 'read', target: '.' } as const]),
  ],
  separable: {
    // Without `paths`, a call with a pattern would mean something else.
    without: ({ paths, pattern, ...rest }, denied) =>
      paths && pattern === undefined ? { ...rest, paths: paths.filter((it) => !denied.has(it)) } : undefined,
    withDenied: (output, denied) => ({ ...output, errors: [...output.errors, ...denied] }),
  },
  input,
  output: z.strictObject({
    files: z.array(file),
    errors: z.array(failure),
    truncated: z.boolean().describe('Whether there were more files than maxFiles.'),
  }),
  examples: [
    {
      input: { paths: ['docs/guide.md', 'missing.txt'] },
      output: { errors: [{ path: 'missing.txt', code: 'NOT_FOUND', message: '`missing.txt` does not exist' }] },
    },
    { input: { pattern: '*.png' }, output: { files: [], errors: [], truncated: false } },
    { input: {}, error: 'INPUT_INVALID' },
  ],
  aliases: [
    {
      name: 'batch_read',
      input: input.omit({ paths: true }).extend({ files: input.shape.paths }),
      toInput: ({ files, ...rest }) => ({ ...rest, paths: files }),
    },
  ],

  async run({ paths, pattern, maxBytesEach, maxFiles }, ctx) {
    if ((paths === undefined) === (pattern === undefined))
      throw new ToolError('INPUT_INVALID', 'give exactly one of paths and pattern');
    const wanted = paths ? [...new Set(paths)] : await matching(pattern as string, ctx);
    const files: z.output<typeof file>[] = [];
    const errors: z.output<typeof failure>[] = [];
    let left = ctx.limits.readManyBytesMax;
    for (const path of wanted.slice(0, maxFiles)) {
      await ctx.breathe();
      try {
        if (left <= 0)
          throw new ToolError('OUTPUT_LIMIT', `the files before it fill ${ctx.limits.readManyBytesMax} bytes`);
        const read = readOne(path, Math.min(maxBytesEach, left), ctx);
        left -= Buffer.byteLength(read.content);
        files.push(read);
      } catch (thrown) {
        // One bad file does not fail the rest.
        const { code, message } = toToolError(thrown);
        errors.push({ path, code, message });
      }
    }
    return { files, errors, truncated: wanted.length > maxFiles };
  },
});

async function matching(pattern: string, ctx: ToolContext): Promise<string[]> {
  using search = ctx.search('.');
  const found: string[] = [];
  await search.files({ include: pattern }, (path) => found.push(path) < ctx.limits.searchPathsMax);
  return found.sort();
}

function readOne(path: string, bytesMax: number, ctx: ToolContext): z.output<typeof file> {
  using opened = ctx.open(path);
  const bytes = opened.bytes();
  const { text, ...other } = toText(opened, bytes, 'utf-8');
  const content = headOf(text, bytesMax);
  return {
    path,
    content,
    size: bytes.length,
    hash: ctx.hashOf(bytes),
    modifiedAt: opened.modifiedAt,
    truncated: content.length < text.length,
    ...other,
  };
}
