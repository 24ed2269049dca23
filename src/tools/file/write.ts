import * as z from 'zod';
import { ToolError } from '../../base/errors.ts';
import { unifiedDiff } from '../edit/diff.ts';
import { NO_BACKUP, UTF8 } from '../file-spellings.ts';
import { rare } from '../rare-parameters.ts';
import { defineTool, type ToolContext, workspacePath } from '../tool.ts';

/** Characters of the largest writable file in base64. */
const CONTENT_CHARS_MAX = 14 * 1024 * 1024;
const BASE64 = /^[A-Za-z0-9+/]*={0,2}$/;

const input = z.strictObject({
  path: workspacePath('File.'),
  content: z.string().max(CONTENT_CHARS_MAX).describe('The whole new content.'),
  encoding: rare(
    z
      .enum(['utf-8', 'ascii', 'latin1', 'base64'])
      .default('utf-8')
      .describe('How the content becomes bytes; base64 is for binary files.'),
  ),
  createDirs: rare(z.boolean().default(true).describe('Create missing parent directories.')),
  overwrite: z.boolean().default(true).describe('false only creates.'),
  mode: rare(
    z
      .string()
      .regex(/^0?[0-7]{3}$/)
      .optional()
      .describe('Permission bits, octal, such as 0644; an existing file keeps its own when absent.'),
  ),
  ifHash: z
    .string()
    .regex(/^sha256:[0-9a-f]{64}$/)
    .optional()
    .describe('Refuse unless the file has this hash (file_read, details).'),
});
const withFilePath = input.omit({ path: true }).extend({ filePath: input.shape.path });

export default defineTool({
  name: 'file_write',
  title: 'Write a file',
  summary:
    'Create a file, and missing directories above it, or replace its whole content in one step. At most 10 MB; secrets and files that ' +
    'programs trust (.git/hooks, .envrc …) are refused. To change a part use file_edit.',
  dependencies: ['file_read'],
  capabilities: [
    { action: 'create', description: 'Creates a file.' },
    { action: 'replace', description: 'Replaces the whole content of a file.' },
  ],
  category: 'filesystem',
  tier: 'write',
  destructive: true,
  idempotent: true,
  effects: ({ path }) => [{ kind: 'write', target: path }],
  input,
  output: z.strictObject({
    path: z.string(),
    bytesWritten: z.int().nonnegative(),
    created: z.boolean().describe('Whether there was no such file before.'),
    hash: z.string().describe('sha256: and 64 hex digits, of the file now.'),
  }),
  examples: [
    {
      input: { path: 'new/note.txt', content: 'hi\n' },
      output: { path: 'new/note.txt', bytesWritten: 3, created: true },
    },
    { input: { path: 'notes.txt', content: '', overwrite: false }, error: 'ALREADY_EXISTS' },
    { input: { path: '../note.txt', content: '' }, error: 'ACCESS_DENIED' },
  ],
  spellings: {
    names: { createDirectories: 'createDirs', filePath: 'path' },
    values: { encoding: UTF8 },
    ignored: NO_BACKUP,
  },
  aliases: [
    { name: 'write_file', input },
    {
      name: 'write',
      input: withFilePath,
      spellings: { names: { path: 'filePath' } },
      toInput: ({ filePath, ...rest }) => ({ path: filePath, ...rest }),
    },
  ],

  async preview({ path, content, encoding }, ctx) {
    const before = contentOf(path, ctx);
    const diff = await unifiedDiff(path, { before, after: toBytes(content, encoding) }, ctx.limits);
    return {
      diff,
      preImages: [{ path, hash: before === undefined ? null : ctx.hashOf(before) }],
    };
  },

  async run({ path, content, encoding, createDirs, overwrite, mode, ifHash }, ctx) {
    const bytes = toBytes(content, encoding);
    const { fileBytesMax } = ctx.limits;
    if (bytes.length > fileBytesMax) {
      throw new ToolError(
        'FILE_LIMIT',
        `\`${path}\` would be ${bytes.length} bytes; at most ${fileBytesMax} are written`,
        {
          details: { limit: fileBytesMax, used: bytes.length, enforcedBy: 'tool' },
        },
      );
    }
    using target = ctx.target(path, { createDirs });
    const { created } = target.replace(bytes, {
      overwrite,
      ifHash,
      ...(mode !== undefined && { mode: Number.parseInt(mode, 8) }),
    });
    return { path, bytesWritten: bytes.length, created, hash: ctx.hashOf(bytes) };
  },
});

/** The present content; undefined if there is no file. Throws what `open` throws except NOT_FOUND. */
function contentOf(path: string, ctx: ToolContext): Buffer | undefined {
  try {
    using file = ctx.open(path);
    return file.bytes();
  } catch (error) {
    if (error instanceof ToolError && error.code === 'NOT_FOUND') return undefined;
    throw error;
  }
}

function toBytes(content: string, encoding: 'utf-8' | 'ascii' | 'latin1' | 'base64'): Buffer {
  const highest = { 'utf-8': Infinity, ascii: 0x7f, latin1: 0xff, base64: 0x7f }[encoding];
  for (let at = 0; highest !== Infinity && at < content.length; at++) {
    if (content.charCodeAt(at) > highest) {
      throw new ToolError('INPUT_INVALID', `content has a character at ${at} that ${encoding} can't represent`);
    }
  }
  if (encoding !== 'base64') return Buffer.from(content, encoding === 'utf-8' ? 'utf8' : 'latin1');
  if (content.length % 4 !== 0 || !BASE64.test(content)) {
    throw new ToolError('INPUT_INVALID', 'content is not base64: use groups of four of A–Z a–z 0–9 + / and =');
  }
  return Buffer.from(content, 'base64');
}
