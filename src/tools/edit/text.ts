/** Converts bytes to text for editing, and back. */
import { ToolError } from '../../base/errors.ts';
import { decodeOther } from '../../base/text/charset.ts';

/** Encodings that an edit keeps byte for byte. */
export const EDITABLE = ['utf-8', 'ascii', 'latin1'] as const;
type Editable = (typeof EDITABLE)[number];

/** The characters that an encoding does not have. */
const FOREIGN: Readonly<Record<Editable, RegExp | undefined>> = {
  'utf-8': undefined,
  latin1: /[^\0-\xff]/u,
  ascii: /[^\0-\x7f]/u,
};

/** Decodes a file, with its BOM. Throws UNSUPPORTED for bytes of another encoding, since an edit would change them. */
export function textOf(path: string, bytes: Buffer, encoding: Editable = 'utf-8'): string {
  const other = encoding === 'utf-8' ? decodeOther(bytes) : undefined;
  if (other)
    throw new ToolError('UNSUPPORTED', `only UTF-8 text can be edited, and \`${path}\` is ${other.decoded}`, {
      suggestion: 'Change it with a command that keeps its encoding, or convert it with `iconv`.',
    });
  const binary = (why: string) =>
    new ToolError('UNSUPPORTED', `\`${path}\` is not ${encoding === 'utf-8' ? 'UTF-8' : encoding} text: ${why}`, {
      suggestion: 'Give its encoding if it is latin1, or replace the whole file with file_write.',
    });
  if (bytes.includes(0)) throw binary('it contains NUL bytes');
  const high = encoding === 'ascii' ? bytes.findIndex((byte) => byte > 0x7f) : -1;
  if (high >= 0) throw binary(`byte ${high} is 0x${bytes[high]?.toString(16)}`);
  if (encoding !== 'utf-8') return bytes.toString('latin1');
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    // TypeError: the bytes are not UTF-8.
    throw binary('it holds bytes that UTF-8 does not have');
  }
}

/** Encodes text. Throws FILE_LIMIT over `bytesMax`, and INPUT_INVALID for a character that the encoding has not, or a lone surrogate. */
export function bytesOf(path: string, text: string, bytesMax: number, encoding: Editable = 'utf-8'): Buffer {
  if (!text.isWellFormed())
    throw new ToolError('INPUT_INVALID', `\`${path}\` would hold half a character (a lone surrogate)`);
  const [foreign] = (FOREIGN[encoding] && text.match(FOREIGN[encoding])) ?? [];
  if (foreign !== undefined)
    throw new ToolError('INPUT_INVALID', `\`${path}\` would hold "${foreign}", which ${encoding} does not have`);
  const bytes = Buffer.from(text, encoding === 'utf-8' ? 'utf8' : 'latin1');
  if (bytes.length <= bytesMax) return bytes;
  throw new ToolError('FILE_LIMIT', `\`${path}\` would be ${bytes.length} bytes; at most ${bytesMax} are written`, {
    details: { limit: bytesMax, used: bytes.length, enforcedBy: 'tool' },
  });
}
