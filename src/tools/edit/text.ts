/** Converts bytes to text for editing, and back. */
import { ToolError } from '../../errors.ts';
import { decodeOther } from '../../text/charset.ts';

/** Decodes a UTF-8 file, with its BOM. Throws UNSUPPORTED for anything else, since an edit would change its bytes. */
export function textOf(path: string, bytes: Buffer): string {
  const other = decodeOther(bytes);
  if (other)
    throw new ToolError('UNSUPPORTED', `only UTF-8 text can be edited, and \`${path}\` is ${other.decoded}`, {
      suggestion: 'Change it with a command that keeps its encoding, or convert it with `iconv`.',
    });
  const binary = (why: string) =>
    new ToolError('UNSUPPORTED', `\`${path}\` is not UTF-8 text: ${why}`, {
      suggestion: 'Replace the whole file with file_write.',
    });
  if (bytes.includes(0)) throw binary('it contains NUL bytes');
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    // TypeError: the bytes are not UTF-8.
    throw binary('it holds bytes that UTF-8 does not have');
  }
}

/** Encodes text. Throws FILE_LIMIT over `bytesMax`, and INPUT_INVALID for a lone surrogate. */
export function bytesOf(path: string, text: string, bytesMax: number): Buffer {
  if (!text.isWellFormed())
    throw new ToolError('INPUT_INVALID', `\`${path}\` would hold half a character (a lone surrogate)`);
  const bytes = Buffer.from(text, 'utf8');
  if (bytes.length <= bytesMax) return bytes;
  throw new ToolError('FILE_LIMIT', `\`${path}\` would be ${bytes.length} bytes; at most ${bytesMax} are written`, {
    details: { limit: bytesMax, used: bytes.length, enforcedBy: 'tool' },
  });
}
