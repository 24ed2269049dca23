/** Bytes of UTF-8 that were cut anywhere, without the parts of characters at their ends. */

const isContinuation = (byte: number | undefined) => byte !== undefined && (byte & 0xc0) === 0x80;

export function withoutHalfStart(bytes: Buffer): Buffer {
  let at = 0;
  while (at < 3 && isContinuation(bytes[at])) at += 1;
  return bytes.subarray(at);
}

export function withoutHalfEnd(bytes: Buffer): Buffer {
  let at = bytes.length - 1;
  while (at > bytes.length - 4 && isContinuation(bytes[at])) at -= 1;
  const lead = bytes[at] ?? 0;
  const wanted = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
  return bytes.length - at < wanted ? bytes.subarray(0, at) : bytes;
}
