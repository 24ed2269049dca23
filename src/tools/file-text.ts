/** Decodes the bytes of files as text. */
import { ToolError } from '../base/errors.ts';
import { decodeOther } from '../base/text/charset.ts';
import type { CheckedFile } from './tool.ts';

/** Bytes at the start of a file in which a NUL marks it as binary; the same number as git's. */
const BINARY_PROBE_BYTES = 8000;

export interface FileText {
  readonly text: string;
  /** Encoding of text that is not in the one asked for, and how it is known; never present with `ascii` and `latin1`. */
  readonly decoded?: string;
}

/**
 * Decodes bytes, and keeps line endings and the byte order mark of UTF-8. Instead of UTF-8, UTF-16 and Shift-JIS are decoded.
 * Throws UNSUPPORTED for other bytes that are not text in that encoding.
 */
export function toText(file: CheckedFile, bytes: Buffer, encoding: 'utf-8' | 'ascii' | 'latin1'): FileText {
  const other = encoding === 'utf-8' ? decodeOther(bytes) : undefined;
  return other ?? { text: textIn(file, bytes, encoding) };
}

function textIn(file: CheckedFile, bytes: Buffer, encoding: 'utf-8' | 'ascii' | 'latin1'): string {
  const refused = (why: string, suggestion: string) =>
    new ToolError('UNSUPPORTED', `\`${file.path}\` is not ${encoding} text: ${why}`, { suggestion });
  const another = 'Read it with encoding latin1 if it is text of another encoding, else with base64.';
  if (bytes.subarray(0, BINARY_PROBE_BYTES).includes(0))
    throw refused('it contains NUL bytes', 'Read it with encoding base64.');
  if (encoding === 'latin1') return bytes.toString('latin1');
  if (encoding === 'ascii') {
    const high = bytes.findIndex((byte) => byte > 127);
    if (high >= 0) throw refused(`byte ${high} is 0x${bytes[high]?.toString(16)}`, another);
    return bytes.toString('latin1');
  }
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    // TypeError: the bytes are not UTF-8.
    throw refused('it holds bytes that UTF-8 does not have', another);
  }
}

/** The first `bytesMax` bytes of a text, without a partial character at the end. */
export function headOf(text: string, bytesMax: number): string {
  const bytes = Buffer.from(text);
  if (bytes.length <= bytesMax) return text;
  let end = bytesMax;
  // Bytes 0b10…… continue a character.
  while (end > 0 && ((bytes[end] as number) & 0xc0) === 0x80) end -= 1;
  return bytes.toString('utf8', 0, end);
}
