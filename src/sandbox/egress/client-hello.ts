/** Reads the first message of a TLS connection: which server it names, and whether it hides that. Pure. */

/** The longest first message that is read, its records' headers included. */
export const HELLO_BYTES_MAX = 16 * 1024;

const HANDSHAKE_RECORD = 22;
const CLIENT_HELLO = 1;
const SERVER_NAME = 0;
const ENCRYPTED_CLIENT_HELLO = 0xfe0d;
const RECORD_HEADER_BYTES = 5;
const MESSAGE_HEADER_BYTES = 4;
const VERSION_AND_RANDOM_BYTES = 34;

export interface ClientHello {
  /** In lower case; absent if it names none. */
  readonly serverName?: string | undefined;
  /** Whether it holds another, encrypted message that may name another server. */
  readonly isEncrypted: boolean;
}

/** What the bytes that a client sent first are: no TLS, a message that has not come whole, an unreadable one, or a ClientHello. */
export function readClientHello(bytes: Buffer): 'other' | 'partial' | 'invalid' | ClientHello {
  if (bytes.length === 0) return 'partial';
  if (bytes[0] !== HANDSHAKE_RECORD) return 'other';
  const message = messageIn(bytes);
  if (typeof message === 'string')
    return message === 'partial' && bytes.length >= HELLO_BYTES_MAX ? 'invalid' : message;
  try {
    return toHello(message);
  } catch {
    return 'invalid'; // RangeError: a length points beyond the message.
  }
}

/** The handshake message, which may be spread over several records. */
function messageIn(bytes: Buffer): Buffer | 'partial' | 'invalid' {
  const parts: Buffer[] = [];
  let length = 0;
  for (let at = 0; ; ) {
    if (bytes.length < at + RECORD_HEADER_BYTES) return 'partial';
    const recordBytes = bytes.readUInt16BE(at + 3);
    if (bytes[at] !== HANDSHAKE_RECORD || bytes[at + 1] !== 3 || recordBytes === 0) return 'invalid';
    const part = bytes.subarray(at + RECORD_HEADER_BYTES, at + RECORD_HEADER_BYTES + recordBytes);
    parts.push(part);
    length += part.length;
    const message = Buffer.concat(parts, length);
    if (message.length > 0 && message[0] !== CLIENT_HELLO) return 'invalid';
    const wanted = length < MESSAGE_HEADER_BYTES ? Infinity : MESSAGE_HEADER_BYTES + message.readUIntBE(1, 3);
    if (length >= wanted) return message.subarray(MESSAGE_HEADER_BYTES, wanted);
    at += RECORD_HEADER_BYTES + recordBytes;
  }
}

function toHello(message: Buffer): ClientHello {
  let at = VERSION_AND_RANDOM_BYTES;
  at += 1 + message.readUInt8(at);
  at += 2 + message.readUInt16BE(at);
  at += 1 + message.readUInt8(at);
  let serverName: string | undefined;
  let isEncrypted = false;
  if (at === message.length) return { isEncrypted };
  const end = at + 2 + message.readUInt16BE(at);
  if (end !== message.length) throw new RangeError('the extensions do not end with the message');
  for (at += 2; at < end; ) {
    const type = message.readUInt16BE(at);
    const from = at + 4;
    at = from + message.readUInt16BE(at + 2);
    if (at > end) throw new RangeError('an extension ends behind the message');
    if (type === ENCRYPTED_CLIENT_HELLO) isEncrypted = true;
    if (type !== SERVER_NAME) continue;
    // One list with one name of the only type that there is; anything else could be read in two ways.
    const nameBytes = message.readUInt16BE(from + 3);
    const isPlain =
      message.readUInt16BE(from) === nameBytes + 3 && message[from + 2] === 0 && from + 5 + nameBytes === at;
    if (!isPlain || serverName !== undefined) throw new RangeError('more than one name');
    serverName = message
      .toString('latin1', from + 5, at)
      .toLowerCase()
      .replace(/\.$/, '');
  }
  return { serverName, isEncrypted };
}
