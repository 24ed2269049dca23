/** What bytes of files say as text. */
import { ToolError } from '../errors.ts';
import type { CheckedFile } from './tool.ts';

/** How far into a file a NUL byte marks it as binary; git looks as far. */
const BINARY_PROBE_BYTES = 8000;

/** The bytes as text, byte order mark and line endings kept. Throws UNSUPPORTED for what is none in that encoding. */
export function toText(file: CheckedFile, bytes: Buffer, encoding: 'utf-8' | 'ascii' | 'latin1'): string {
  const refused = (why: string, suggestion: string) =>
    new ToolError('UNSUPPORTED', `\`${file.path}\` is not ${encoding} text: ${why}`, { suggestion });
  const another = 'Read it with encoding latin1 if it is text of another encoding, else with base64.';
  if (bytes.subarray(0, BINARY_PROBE_BYTES).includes(0))
    throw refused('it holds NUL bytes', 'Read it with encoding base64.');
  if (encoding === 'latin1') return bytes.toString('latin1');
  if (encoding === 'ascii') {
    const high = bytes.findIndex((byte) => byte > 127);
    if (high >= 0) throw refused(`byte ${high} is 0x${bytes[high]?.toString(16)}`, another);
    return bytes.toString('latin1');
  }
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    // The one failure is a byte sequence that UTF-8 doesn't have.
    throw refused('it holds bytes that UTF-8 does not have', another);
  }
}

/** The first of a text's bytes, without half a character at the end. */
export function headOf(text: string, bytesMax: number): string {
  const bytes = Buffer.from(text);
  if (bytes.length <= bytesMax) return text;
  let end = bytesMax;
  // 0b10…… continues a character.
  while (end > 0 && ((bytes[end] as number) & 0xc0) === 0x80) end -= 1;
  return bytes.toString('utf8', 0, end);
}
