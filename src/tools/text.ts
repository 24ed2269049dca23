/** Bytes that are to be edited as text, and back. */
import { ToolError } from '../errors.ts';

/** The text of a file in UTF-8, with its BOM. Throws UNSUPPORTED for anything else, whose bytes an edit would change. */
export function textOf(path: string, bytes: Buffer): string {
  const binary = (why: string) =>
    new ToolError('UNSUPPORTED', `\`${path}\` is not UTF-8 text: ${why}`, {
      suggestion: 'Replace it as a whole with file_write.',
    });
  if (bytes.includes(0)) throw binary('it holds NUL bytes');
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    // The one failure is a byte sequence that UTF-8 doesn't have.
    throw binary('it holds bytes that UTF-8 does not have');
  }
}

/** Throws FILE_LIMIT where that would be more than is written, and INPUT_INVALID where half a character was put in. */
export function bytesOf(path: string, text: string, bytesMax: number): Buffer {
  if (!text.isWellFormed())
    throw new ToolError('INPUT_INVALID', `\`${path}\` would hold half a character (a lone surrogate)`);
  const bytes = Buffer.from(text, 'utf8');
  if (bytes.length <= bytesMax) return bytes;
  throw new ToolError('FILE_LIMIT', `\`${path}\` would be ${bytes.length} bytes; at most ${bytesMax} are written`, {
    details: { limit: bytesMax, used: bytes.length, enforcedBy: 'tool' },
  });
}
