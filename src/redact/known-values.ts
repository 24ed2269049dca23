/** Hides values that are known to be secret: as they are, in base64, in JSON and URL-encoded. Pure. */

const HIDDEN = Buffer.from('[secret]');

/** Length in bytes below which a value would match unrelated text. */
const BYTES_MIN = 4;

/** The bytes without the values. `isCut` says that more bytes followed, so that the beginning of a value may stand at the end. */
export function hideValues(bytes: Buffer, values: readonly string[], { isCut = false } = {}): Buffer {
  const forms = [...new Set(values.flatMap(formsOf))].sort((a, b) => b.length - a.length);
  // Latin-1 gives each byte one character, so that positions stay and any bytes come back as they were.
  let text = bytes.toString('latin1');
  const before = text;
  for (const form of forms) text = text.replaceAll(form, HIDDEN.toString());
  if (isCut) text = text.slice(0, text.length - longestBeginningAtEnd(text, forms));
  return text === before ? bytes : Buffer.from(text, 'latin1');
}

/** Characters at the end of a text that begin one of the forms. */
function longestBeginningAtEnd(text: string, forms: readonly string[]): number {
  let longest = 0;
  for (const form of forms)
    for (let length = Math.min(form.length - 1, text.length); length > longest; length--)
      if (text.endsWith(form.slice(0, length))) longest = length;
  return longest;
}

/** The forms of a value as Latin-1 texts. */
function formsOf(value: string): string[] {
  const bytes = Buffer.from(value);
  if (bytes.length < BYTES_MIN) return [];
  const encoded = encodeURIComponent(value);
  const texts = [
    value,
    JSON.stringify(value).slice(1, -1),
    encoded,
    encoded.replaceAll(/%[0-9A-F]{2}/g, (it) => it.toLowerCase()),
    new URLSearchParams({ a: value }).toString().slice(2),
  ];
  return [...texts.map((it) => Buffer.from(it).toString('latin1')), ...base64Forms(bytes)];
}

/** The characters of base64 that depend on these bytes alone, for each position at which they may begin. */
function base64Forms(bytes: Buffer): string[] {
  return [0, 1, 2].flatMap((before) => {
    const padded = Buffer.concat([Buffer.alloc(before), bytes]);
    const whole = padded.toString('base64').replace(/=+$/, '');
    // Characters that hold bits of what stands before or behind are left out.
    const from = Math.ceil((before * 8) / 6);
    const to = Math.floor((padded.length * 8) / 6);
    const inner = whole.slice(from, to);
    return inner.length < BYTES_MIN ? [] : [inner, inner.replaceAll('+', '-').replaceAll('/', '_')];
  });
}
