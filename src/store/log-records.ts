/** File format of a call's output: records of a kind byte, a big-endian `u32` length and the data. Append-only. */
import type { FileHandle } from 'node:fs/promises';

export const KINDS = ['meta', 'stdout', 'stderr', 'end'] as const;
export type RecordKind = (typeof KINDS)[number];

export interface LogRecord {
  readonly kind: RecordKind;
  /** Shares memory with the block that was read. */
  readonly data: Buffer;
}

/** Bytes of a record before its data. */
export const HEAD_BYTES = 5;
const BLOCK_BYTES = 128 * 1024;

/** Writes a record into `room` at `at`; returns the offset after it. */
export function putRecord(room: Buffer, at: number, kind: RecordKind, data: Uint8Array): number {
  room[at] = KINDS.indexOf(kind);
  room.writeUInt32BE(data.length, at + 1);
  room.set(data, at + HEAD_BYTES);
  return at + HEAD_BYTES + data.length;
}

/** The complete records between two offsets of a file, block by block; stops at an incomplete or invalid one. */
export async function* readRecords(file: FileHandle, from: number, to: number): AsyncGenerator<LogRecord[]> {
  for (let [at, wanted] = [from, BLOCK_BYTES]; at < to; ) {
    const room = Buffer.allocUnsafe(Math.min(wanted, to - at));
    const { bytesRead } = await file.read(room, 0, room.length, at);
    const { records, bytes, next } = wholeRecords(room.subarray(0, bytesRead));
    if (records.length > 0) yield records;
    // No record fits: the next one is larger than a block, unless it extends beyond the end.
    if (bytes === 0 && (next <= room.length || next > to - at)) return;
    wanted = bytes === 0 ? next : BLOCK_BYTES;
    at += bytes;
  }
}

/** The complete records in `block`, their total size, and the size of the next record as far as known. */
function wholeRecords(block: Buffer): { records: LogRecord[]; bytes: number; next: number } {
  const records: LogRecord[] = [];
  let at = 0;
  for (;;) {
    if (block.length - at < HEAD_BYTES) return { records, bytes: at, next: HEAD_BYTES };
    const kind = KINDS[block[at] as number];
    const bytes = HEAD_BYTES + block.readUInt32BE(at + 1);
    if (kind === undefined || block.length - at < bytes) return { records, bytes: at, next: kind ? bytes : 0 };
    records.push({ kind, data: block.subarray(at + HEAD_BYTES, at + bytes) });
    at += bytes;
  }
}
