/**
 * Text of bytes that a server sent: its character set by the byte order mark, the content type, the page's own <meta>,
 * or the bytes themselves, in this order, as browsers have it.
 */
import { isUtf8 } from 'node:buffer';

export interface DecodedText {
  readonly text: string;
  /** Name of the WHATWG Encoding Standard, such as `shift_jis`. */
  readonly charset: string;
}

export interface TextSource {
  /** The header `content-type`. */
  readonly contentType?: string | undefined;
  /** Whether bytes are missing at the end, so that the last character may be incomplete. */
  readonly isCut?: boolean;
}

/** Decodes bytes, whatever they are: bytes that their character set does not have become U+FFFD. */
export function decodeText(bytes: Uint8Array, { contentType = '', isCut = false }: TextSource = {}): DecodedText {
  const said =
    decoderOf(charsetOfMark(bytes)) ??
    decoderOf(charsetOfType(contentType)) ??
    (isHtml(contentType) ? decoderOf(charsetOfMeta(bytes)) : undefined);
  const decoder =
    said ?? new TextDecoder(isUtf8(isCut ? withoutCutCharacter(bytes) : bytes) ? 'utf-8' : 'windows-1252');
  // With `stream`, a character that is cut at the end is left out instead of becoming U+FFFD.
  return { text: decoder.decode(bytes, { stream: isCut }), charset: decoder.encoding };
}

/** Whether the bytes are text by their type or by themselves. */
export function isText(bytes: Uint8Array, { contentType = '', isCut = false }: TextSource = {}): boolean {
  const [type = ''] = contentType.split(';', 1);
  if (TEXT_TYPE.test(type.trim()) || charsetOfType(contentType) !== undefined) return true;
  return charsetOfMark(bytes) !== undefined || isUtf8(isCut ? withoutCutCharacter(bytes) : bytes);
}

const TEXT_TYPE = /^(text\/.+|application\/((.+\+)?(json|xml)|javascript|ecmascript|x-www-form-urlencoded|yaml))$/i;

/** Text of bytes that are not UTF-8, with what says so: a byte order mark of UTF-16, or that all of it is Japanese in Shift-JIS. */
export function decodeOther(bytes: Uint8Array): { readonly text: string; readonly decoded: string } | undefined {
  const mark = charsetOfMark(bytes);
  if (mark?.startsWith('utf-16')) {
    const text = decodedAs(mark, bytes);
    return text === undefined ? undefined : { text, decoded: `${mark}, as its byte order mark says` };
  }
  if (isUtf8(bytes)) return undefined;
  const text = decodedAs('shift_jis', bytes);
  const others = text?.match(NOT_ASCII)?.length ?? 0;
  // Bytes of other encodings can be Shift-JIS by chance, but are hardly ever kana, which all Japanese text has.
  if (text === undefined || (text.match(KANA)?.length ?? 0) * KANA_SHARE < others) return undefined;
  return { text, decoded: 'shift_jis, which is an assumption: it is not UTF-8, and reads as Japanese text' };
}

function decodedAs(label: string, bytes: Uint8Array): string | undefined {
  try {
    const text = new TextDecoder(label, { fatal: true }).decode(bytes);
    return text.includes('\0') ? undefined : text;
  } catch {
    return undefined; // TypeError: not of this encoding.
  }
}

const NOT_ASCII = /[^\0-\x7f]/gu;
/** Hiragana and full-width katakana: at least one character of this many that are not ASCII. */
const KANA = /[\u3041-\u3096\u30a1-\u30f6]/gu;
const KANA_SHARE = 5;

/** Pages say their character set in these first bytes, or not at all. */
const META_BYTES = 1024;

function charsetOfMark([first, second, third]: Uint8Array): string | undefined {
  if (first === 0xef && second === 0xbb && third === 0xbf) return 'utf-8';
  if (first === 0xfe && second === 0xff) return 'utf-16be';
  return first === 0xff && second === 0xfe ? 'utf-16le' : undefined;
}

const charsetOfType = (contentType: string): string | undefined =>
  /;\s*charset\s*=\s*["']?([^"';\s]{1,40})/i.exec(contentType)?.[1];

const isHtml = (contentType: string): boolean =>
  contentType === '' || /^\s*(text\/html|application\/xhtml\+xml)\b/i.test(contentType);

/** The label in `<meta charset=…>`, `<meta http-equiv=… content="…; charset=…">` or `<?xml encoding=…>`. */
function charsetOfMeta(bytes: Uint8Array): string | undefined {
  const start = Buffer.from(bytes.subarray(0, META_BYTES))
    .toString('latin1')
    .replaceAll(/<!--[\s\S]*?(-->|$)/g, '');
  const label =
    /<meta\s[^>]*?\bcharset\s*=\s*["']?\s*([^"'\s/>;]{1,40})/i.exec(start)?.[1] ??
    /^\s*<\?xml\s[^>]*?\bencoding\s*=\s*["']([^"']{1,40})/i.exec(start)?.[1];
  // Text whose ASCII could be read is not UTF-16, whatever it says.
  return label && /^utf-?16/i.test(label) ? 'utf-8' : label;
}

/** Drops a byte order mark by itself. Undefined for a name that the standard does not have. */
function decoderOf(label: string | undefined): TextDecoder | undefined {
  if (label === undefined) return undefined;
  try {
    return new TextDecoder(label);
  } catch {
    return undefined; // RangeError: no such character set.
  }
}

/** Without the first bytes of a character of UTF-8 whose last bytes are missing. */
function withoutCutCharacter(bytes: Uint8Array): Uint8Array {
  for (let missing = 1; missing <= 3 && missing <= bytes.length; missing += 1) {
    const byte = bytes[bytes.length - missing] as number;
    if (byte < 0x80) break;
    if (byte >= 0xc0) return bytes.subarray(0, bytes.length - missing);
  }
  return bytes;
}
