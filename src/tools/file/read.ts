import { extname } from 'node:path';
import * as z from 'zod';
import { ToolError } from '../../base/errors.ts';
import { details, shownDetails } from '../details.ts';
import { UTF8 } from '../file-spellings.ts';
import { toText } from '../file-text.ts';
import { rare } from '../rare-parameters.ts';
import { defineTool, workspacePath } from '../tool.ts';

/** Loaded by the first call of a thread: the gateway does not need it, and later calls don't await a promise. */
let mime: typeof import('mime/lite').default | undefined;

/** The MIME registry maps these extensions to a video format. */
const CODE_TYPES = new Map(['.ts', '.mts', '.cts', '.tsx'].map((it) => [it, 'text/typescript']));

const lineNumber = () => z.int().positive().max(Number.MAX_SAFE_INTEGER);

const input = z.strictObject({
  path: workspacePath('File.'),
  startLine: lineNumber().default(1).describe('First line, from 1.'),
  endLine: lineNumber().optional().describe('Last line, inclusive.'),
  maxLines: rare(lineNumber().optional().describe('Most lines returned, counted from startLine.')),
  encoding: rare(
    z
      .enum(['utf-8', 'ascii', 'latin1', 'base64'])
      .default('utf-8')
      .describe('How bytes become text; base64 is for binary files, which have no lines.'),
  ),
  details,
});

export default defineTool({
  name: 'file_read',
  title: 'Read a file',
  summary:
    'Read a text file, whole or by lines. details: true also gives its size, type, time and hash. More than 10 MB at ' +
    'once, and secrets, are refused.',
  capabilities: [{ action: 'read', description: 'Reads a file, whole or by line range.' }],
  category: 'filesystem',
  tier: 'read_only',
  idempotent: true,
  cacheable: true,
  effects: ({ path }) => [{ kind: 'read', target: path }],
  input,
  output: z.strictObject({
    content: z.string().describe('The lines asked for, with their own line endings.'),
    lines: z.int().nonnegative().describe('Lines in the whole file.'),
    size: z.int().nonnegative().describe('Bytes in the whole file.'),
    encoding: z.enum(['utf-8', 'ascii', 'latin1', 'base64']).describe('As asked for.'),
    mimeType: z.string(),
    modifiedAt: z.string().describe('ISO 8601.'),
    hash: z.string().describe('sha256: and 64 hex digits, of the whole file.'),
    truncated: z.boolean().describe('Whether maxLines cut the requested lines.'),
    decoded: z.string().optional().describe('Encoding of the file, and how it is known, if it is not UTF-8.'),
    details: shownDetails,
  }),
  examples: [
    { input: { path: 'notes.txt', startLine: 2, endLine: 2 }, output: { content: 'second line\n', lines: 3 } },
    { input: { path: '../secret' }, error: 'ACCESS_DENIED' },
    { input: { path: '.env' }, error: 'SENSITIVE_FILE' },
    { input: { path: 'missing.txt' }, error: 'NOT_FOUND' },
  ],
  spellings: { names: { filePath: 'path' }, values: { encoding: UTF8 } },
  aliases: [
    { name: 'read_file', input },
    {
      name: 'read',
      spellings: { names: { path: 'filePath' } },
      input: input.omit({ path: true }).extend({ filePath: input.shape.path }),
      toInput: ({ filePath, ...rest }) => ({ path: filePath, ...rest }),
    },
  ],

  async run({ path, startLine, endLine, maxLines, encoding, details: detailed }, ctx) {
    mime ??= (await import('mime/lite')).default;
    if (endLine !== undefined && endLine < startLine)
      throw new ToolError('INPUT_INVALID', `endLine ${endLine} is before startLine ${startLine}`);
    using file = ctx.open(path);
    const last = Math.min(endLine ?? Infinity, maxLines === undefined ? Infinity : startLine + maxLines - 1);
    const isPart = encoding !== 'base64' && (startLine > 1 || last < Infinity);
    const range = isPart && file.size > ctx.limits.fileBytesMax ? await file.range(startLine, last) : undefined;
    const bytes = range?.bytes ?? file.bytes();
    const about = {
      size: range ? file.size : bytes.length,
      encoding,
      mimeType:
        CODE_TYPES.get(extname(path)) ??
        mime.getType(path) ??
        (encoding === 'base64' ? 'application/octet-stream' : 'text/plain'),
      modifiedAt: file.modifiedAt,
      hash: range?.hash ?? ctx.hashOf(bytes),
      ...(detailed && { details: true as const }),
    };
    if (encoding === 'base64') return { content: bytes.toString('base64'), lines: 0, truncated: false, ...about };

    const { text, ...other } = toText(file, bytes, encoding);
    const { content, lines } = range ? { content: text, lines: range.lines } : cutLines(text, startLine, last);
    if (startLine > Math.max(lines, 1)) {
      throw new ToolError('INPUT_INVALID', `startLine ${startLine} is past the end: \`${path}\` has ${lines} lines`);
    }
    return { content, lines, truncated: last < Math.min(endLine ?? Infinity, lines), ...about, ...other };
  },
});

/** Lines `first` to `last` of `text` with their endings, and the number of lines; a final newline begins no line. */
function cutLines(text: string, first: number, last: number): { content: string; lines: number } {
  let lines = 0;
  let from = first === 1 ? 0 : text.length;
  let to = text.length;
  for (let at = 0; at < text.length; ) {
    const newline = text.indexOf('\n', at);
    const end = newline < 0 ? text.length : newline + 1;
    lines += 1;
    if (lines === first) from = at;
    if (lines === last) to = end;
    at = end;
  }
  return { content: text.slice(from, Math.max(from, to)), lines };
}
