/**
 * The messages of a PostgreSQL server. They are read here and not by pg-protocol, whose parser never ends with a text
 * that has no end. All that does not have the form of its kind is refused.
 */

/** The server sent what is no message of PostgreSQL, or none that it was asked for. */
export class MalformedMessage extends Error {}

export interface Field {
  readonly name: string;
  readonly typeId: number;
}

/** What the server tells of an error or a notice; absent parts are empty. */
export interface Told {
  /** SQLSTATE. */
  readonly code: string;
  readonly message: string;
  readonly hint: string;
  readonly table: string;
  readonly column: string;
  readonly constraint: string;
}

export type ServerMessage =
  /** A step of the login: its kind, and what belongs to that. */
  | { readonly kind: 'login'; readonly step: number; readonly data: Buffer }
  | { readonly kind: 'backend'; readonly processId: number; readonly secretKey: number }
  | { readonly kind: 'ready' }
  | { readonly kind: 'fields'; readonly fields: readonly Field[] }
  | { readonly kind: 'row'; readonly bytes: number; readonly cells: readonly (string | null)[] }
  /** The end of a statement, with a tag such as `UPDATE 3`. */
  | { readonly kind: 'complete'; readonly tag: string }
  | { readonly kind: 'error' | 'notice'; readonly told: Told };

/** PostgreSQL allows as many columns in a result. */
const FIELDS_MAX = 1664;
const HEADER_BYTES = 5;

/** Settings, notifications, and the ends of steps that hold nothing. */
const SILENT = new Set('SA123nItsv');

/** Splits what a server sends into messages. */
export class MessageReader {
  #pieces: Buffer[] = [];
  #bytes = 0;
  /** Bytes that the next message needs. */
  #needed = HEADER_BYTES;

  /** Gives each message that is whole to `take`. Throws MalformedMessage, and what `take` throws. */
  push(chunk: Buffer, take: (message: ServerMessage) => void): void {
    this.#pieces.push(chunk);
    this.#bytes += chunk.length;
    if (this.#bytes < this.#needed) return;
    const all = this.#pieces.length === 1 ? chunk : Buffer.concat(this.#pieces);
    let at = 0;
    this.#needed = HEADER_BYTES;
    while (all.length - at >= HEADER_BYTES) {
      const length = all.readUInt32BE(at + 1);
      if (length < HEADER_BYTES - 1) throw new MalformedMessage(`a message of ${length} bytes`);
      this.#needed = length + 1;
      if (all.length - at < this.#needed) break;
      const message = parse(String.fromCharCode(all[at] as number), all.subarray(at + HEADER_BYTES, at + this.#needed));
      at += this.#needed;
      this.#needed = HEADER_BYTES;
      if (message) take(message);
    }
    this.#pieces = at < all.length ? [all.subarray(at)] : [];
    this.#bytes = all.length - at;
  }
}

/** Undefined for a message that tells nothing. Throws MalformedMessage. */
function parse(tag: string, bytes: Buffer): ServerMessage | undefined {
  const body = new Body(bytes);
  switch (tag) {
    case 'D':
      return { kind: 'row', bytes: bytes.length, cells: body.cells() };
    case 'T':
      return { kind: 'fields', fields: body.fields() };
    case 'C':
      return { kind: 'complete', tag: body.text() };
    case 'Z':
      return { kind: 'ready' };
    case 'E':
      return { kind: 'error', told: body.told() };
    case 'N':
      return { kind: 'notice', told: body.told() };
    case 'R':
      return { kind: 'login', step: body.int32(), data: body.rest() };
    case 'K':
      return { kind: 'backend', processId: body.int32(), secretKey: body.int32() };
    default:
      if (SILENT.has(tag)) return undefined;
      throw new MalformedMessage(`a message of the kind ${JSON.stringify(tag)}`);
  }
}

/** Reads the body of a message; throws MalformedMessage instead of reading beyond it. */
class Body {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  int16(): number {
    return this.#bytes.readUInt16BE(this.#skip(2));
  }

  int32(): number {
    return this.#bytes.readInt32BE(this.#skip(4));
  }

  /** A text that ends with a NUL byte. */
  text(): string {
    const end = this.#bytes.indexOf(0, this.#at);
    if (end < 0) throw new MalformedMessage('a text without an end');
    const from = this.#skip(end - this.#at + 1);
    return this.#bytes.toString('utf8', from, end);
  }

  rest(): Buffer {
    return this.#bytes.subarray(this.#at);
  }

  fields(): Field[] {
    const count = this.int16();
    if (count > FIELDS_MAX) throw new MalformedMessage(`${count} columns`);
    return Array.from({ length: count }, () => {
      const name = this.text().toWellFormed();
      this.#skip(6); // The table, and the column in it.
      const typeId = this.int32();
      this.#skip(8); // The size and the modifier of the type, and the format, which is text.
      return { name, typeId };
    });
  }

  cells(): (string | null)[] {
    const count = this.int16();
    if (count > FIELDS_MAX) throw new MalformedMessage(`${count} columns`);
    const cells: (string | null)[] = [];
    for (let at = 0; at < count; at += 1) {
      const length = this.int32();
      if (length === -1) cells.push(null);
      else {
        const from = this.#skip(length);
        cells.push(this.#bytes.toString('utf8', from, from + length));
      }
    }
    return cells;
  }

  told(): Told {
    const parts = new Map<string, string>();
    for (let tag = this.#bytes[this.#skip(1)]; tag !== 0; tag = this.#bytes[this.#skip(1)])
      parts.set(String.fromCharCode(tag as number), this.text());
    const part = (tag: string) => (parts.get(tag) ?? '').slice(0, 1000).toWellFormed();
    return {
      code: part('C'),
      message: part('M'),
      hint: part('H'),
      table: part('t'),
      column: part('c'),
      constraint: part('n'),
    };
  }

  /** Goes on by some bytes; gives where they begin. */
  #skip(count: number): number {
    const from = this.#at;
    if (count < 0 || from + count > this.#bytes.length) throw new MalformedMessage('a message that is too short');
    this.#at += count;
    return from;
  }
}
