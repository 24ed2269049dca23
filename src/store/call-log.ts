/**
 * The output of one call on disk in order of arrival, one entry for each chunk, numbered from 1. Appended chunks are buffered in memory,
 * written asynchronously and readable at once. If the log can't continue it keeps what it has and records why; the call itself continues.
 */
import { type FileHandle, open } from 'node:fs/promises';
import type { CallState } from '../base/call.ts';
import type { Powers } from '../base/powers.ts';
import { jsonOr } from '../base/text/json.ts';
import { HEAD_BYTES, putRecord, type RecordKind, readRecords } from './log-records.ts';

export type StreamName = 'stdout' | 'stderr';

export interface LogOwner {
  readonly sessionId: string;
  readonly callId: string;
  /** Principal of a detached call, which may read the output from another session. */
  readonly principal?: string;
  /** Principal whose output it is, for its share of the disk; logs of earlier versions do not name it. */
  readonly storedFor?: string;
}

/** Why a log ends before its call. `size`: the log is full. `disk`: the disk is full or too slow. `crash`: the daemon ended first. */
export type CutReason = 'size' | 'disk' | 'crash';

export interface LogEntry {
  readonly seq: number;
  readonly stream: StreamName;
  readonly data: Uint8Array;
}

/** The current size and state of a log. */
export interface LogExtent {
  readonly bytesTotal: number;
  /** Seq of the last entry. */
  readonly seq: number;
  /** Absent while the call runs. */
  readonly state?: CallState | undefined;
  readonly cut?: CutReason | undefined;
}

export interface CallLogOptions {
  readonly path: string;
  readonly ref: string;
  readonly owner: LogOwner;
  readonly bytesMax: number;
  readonly powers: Powers;
  /** Called before bytes are buffered; returns why they may not be, undefined if they may. */
  refusal(bytes: number): CutReason | undefined;
  /** Called when bytes leave memory; `lost` of them did not reach the file. */
  onWritten(bytes: number, lost: number): void;
}

/** A position between two records. */
interface LogPosition {
  /** Seq of the entry before the position. */
  readonly seq: number;
  /** Bytes of output before the position. */
  readonly offset: number;
  /** Bytes of the file before the position. */
  readonly at: number;
}

const START: LogPosition = { seq: 0, offset: 0, at: 0 };
/** Distance of remembered positions in bytes, so that later reads need not start at the beginning. */
const MARK_EVERY_BYTES = 256 * 1024;
/** Buffered data is written after this time or at this size, in milliseconds and bytes; a producer of more must wait for it. */
const WRITE_AFTER_MS = 100;
const WRITE_BYTES = 256 * 1024;
const ROOM_BYTES_MIN = 1024;
const ENTRIES_MAX = 1000;

export class CallLog {
  readonly owner: LogOwner;
  readonly ref: string;
  readonly path: string;
  /** When its call ended, in milliseconds since the epoch; undefined while the call runs. */
  endedAt: number | undefined;
  readonly #options: CallLogOptions;
  #seq = 0;
  /** Position after the appended data, and after the part of it that is on disk. */
  #appended = START;
  #stored = START;
  #marks: LogPosition[] = [START];
  #state: CallState | undefined;
  #cut: CutReason | undefined;
  /** Buffers of records not yet written: full ones, then the one being filled. */
  #rooms: { room: Buffer<ArrayBuffer>; used: number }[] = [];
  #room = Buffer.alloc(0);
  #roomUsed = 0;
  /** A written buffer kept for reuse, since allocating a new one each time costs more than filling it. */
  #spare: Buffer<ArrayBuffer> | undefined;
  #file: FileHandle | undefined;
  #writing: Promise<void> | undefined;
  #writeTimer: { cancel(): void } | undefined;
  /** Whether an earlier daemon wrote the log; its content is read on first use. */
  #isFound = false;
  #finding: Promise<void> | undefined;
  #hasFailed = false;

  constructor(options: CallLogOptions) {
    this.#options = options;
    this.owner = options.owner;
    this.ref = options.ref;
    this.path = options.path;
  }

  /** Opens the log of a call from an earlier daemon; undefined if the file is no such log. */
  static async openExisting(options: Omit<CallLogOptions, 'owner'>, bytes: number): Promise<CallLog | undefined> {
    await using file = await open(options.path, 'r');
    for await (const [first] of readRecords(file, 0, Math.min(bytes, META_BYTES_MAX))) {
      const owner = first?.kind === 'meta' ? parse<LogOwner>(first.data) : undefined;
      if (!owner) break;
      const log = new CallLog({ ...options, owner });
      log.#appended = log.#stored = { ...START, at: bytes };
      log.#isFound = true;
      return log;
    }
    return undefined;
  }

  /** Bytes of its file, including those not yet written. */
  get fileBytes(): number {
    return this.#appended.at;
  }

  /** Appends a chunk. `written` settles when the next chunk should come; absent if it may come at once. */
  append(stream: StreamName, data: Uint8Array): { seq: number; written?: Promise<void> } {
    this.#seq += 1;
    const { seq } = this.#appended;
    if (this.#cut || this.#state) return { seq: this.#seq };
    if (this.#appended.at === 0 && !this.#append('meta', toJson(this.owner))) return { seq: this.#seq };
    if (this.#appended.at + HEAD_BYTES + data.length > this.#options.bytesMax) this.#cut = 'size';
    else if (this.#append(stream, data)) {
      const { offset, at } = this.#appended;
      this.#appended = { seq: seq + 1, offset: offset + data.length, at };
      if (at - (this.#marks.at(-1) as LogPosition).at >= MARK_EVERY_BYTES) this.#marks.push(this.#appended);
    }
    return this.#unwrittenBytes < WRITE_BYTES ? { seq: this.#seq } : { seq: this.#seq, written: this.flush() };
  }

  /** Ends the log. Settles when everything is written; never rejects. */
  async end(state: CallState): Promise<void> {
    if (this.#state) return;
    this.#state = state;
    this.endedAt = this.#options.powers.now();
    const cut = this.#cut;
    if (this.#appended.at > 0 && !this.#hasFailed) this.#append('end', toJson({ state, cut }));
    this.#cut = cut; // A missing end record does not make the output incomplete.
    await this.flush();
    await this.#file?.close().catch(() => {}); // The disk failed before, and that error was reported.
    this.#file = undefined;
    this.#spare = undefined;
  }

  /** Settles when everything appended so far is on disk or can't be written; never rejects. */
  async flush(): Promise<void> {
    for (const upTo = this.#appended.at; this.#stored.at < upTo && this.#unwrittenBytes > 0; ) {
      this.#writing ??= this.#write().finally(() => {
        this.#writing = undefined;
      });
      await this.#writing;
    }
  }

  /** The current extent. Throws file system errors if the file is gone. */
  async extent(): Promise<LogExtent> {
    await this.#ready();
    const { offset: bytesTotal, seq } = this.#stored;
    return { bytesTotal, seq, state: this.#state, cut: this.#cut };
  }

  /** Entries after `seq` in order: about `bytesMax` bytes, at least one entry if there is any. */
  async entriesAfter(seq: number, bytesMax: number): Promise<LogEntry[]> {
    await this.#ready();
    const page: LogEntry[] = [];
    let bytes = 0;
    for await (const { offset: _, ...entry } of this.#entries((it) => it.seq <= seq)) {
      if (entry.seq <= seq) continue;
      bytes += entry.data.length;
      if (page.length > 0 && (bytes > bytesMax || page.length >= ENTRIES_MAX)) break;
      page.push(entry);
    }
    return page;
  }

  /** `limit` bytes of output from `offset` on, both streams in order of arrival; fewer at the end. */
  async bytesAt(offset: number, limit: number): Promise<Buffer> {
    await this.#ready();
    const parts: Uint8Array[] = [];
    for await (const entry of this.#entries((it) => it.offset <= offset)) {
      if (entry.offset >= offset + limit) break;
      const from = Math.max(0, offset - entry.offset);
      if (from < entry.data.length) parts.push(entry.data.subarray(from, offset + limit - entry.offset));
    }
    return Buffer.concat(parts);
  }

  async *#entries(isBefore: (position: LogPosition) => boolean): AsyncGenerator<LogEntry & { offset: number }> {
    const mark = this.#marks.findLast(isBefore) ?? START;
    const { at: end } = this.#stored;
    if (mark.at >= end) return;
    let { seq, offset } = mark;
    await using file = await open(this.path, 'r');
    for await (const records of readRecords(file, mark.at, end)) {
      for (const { kind, data } of records) {
        if (kind !== 'stdout' && kind !== 'stderr') continue;
        seq += 1;
        yield { seq, offset, stream: kind, data };
        offset += data.length;
      }
    }
  }

  get #unwrittenBytes(): number {
    return this.#appended.at - this.#stored.at;
  }

  /** Buffers a record; false if there is no room for it. */
  #append(kind: RecordKind, data: Uint8Array): boolean {
    const bytes = HEAD_BYTES + data.length;
    const refusal = this.#options.refusal(bytes);
    if (refusal) {
      this.#cut = refusal;
      return false;
    }
    // Small chunks share a buffer; a separate one for each would cost many times its size.
    if (this.#roomUsed + bytes > this.#room.length) {
      this.#takeRoom();
      const size = Math.min(WRITE_BYTES, Math.max(ROOM_BYTES_MIN, this.#unwrittenBytes));
      this.#room = this.#spareOf(bytes) ?? Buffer.allocUnsafe(Math.max(size, bytes));
    }
    this.#roomUsed = putRecord(this.#room, this.#roomUsed, kind, data);
    this.#appended = { ...this.#appended, at: this.#appended.at + bytes };
    this.#writeTimer ??= this.#options.powers.after(WRITE_AFTER_MS, () => {
      this.#writeTimer = undefined;
      void this.flush();
    });
    return true;
  }

  #spareOf(bytes: number): Buffer<ArrayBuffer> | undefined {
    const spare = this.#spare;
    if (!spare || spare.length < bytes) return undefined;
    this.#spare = undefined;
    return spare;
  }

  #takeRoom(): void {
    if (this.#roomUsed > 0) this.#rooms.push({ room: this.#room, used: this.#roomUsed });
    this.#room = Buffer.alloc(0);
    this.#roomUsed = 0;
  }

  /** Writes everything buffered now. */
  async #write(): Promise<void> {
    this.#writeTimer?.cancel();
    this.#writeTimer = undefined;
    this.#takeRoom();
    const rooms = this.#rooms.splice(0);
    const upTo = this.#appended;
    const bytes = upTo.at - this.#stored.at;
    try {
      this.#file ??= await open(this.path, 'ax', 0o600);
      for (const { room, used } of rooms) {
        await this.#file.appendFile(room.subarray(0, used));
        if (room.length === WRITE_BYTES && !this.#state) this.#spare = room;
      }
      this.#stored = upTo;
      this.#options.onWritten(bytes, 0);
    } catch (error) {
      await this.#giveUp(error);
    }
  }

  /** Ends the log after a write error: complete records on disk stay readable, buffered ones are lost. */
  async #giveUp(error: unknown): Promise<void> {
    const { powers, onWritten } = this.#options;
    powers.log.warn({ error, callId: this.owner.callId }, 'could not write the output of a call; its log ends here');
    this.#cut = 'disk';
    this.#hasFailed = true;
    await this.#file?.truncate(this.#stored.at).catch(() => {}); // Readers stop at `#stored` anyway.
    onWritten(this.#unwrittenBytes, this.#unwrittenBytes);
    this.#appended = this.#stored;
    this.#marks = this.#marks.filter((it) => it.at <= this.#stored.at);
    this.#rooms = [];
    this.#room = Buffer.alloc(0);
    this.#roomUsed = 0;
  }

  async #ready(): Promise<void> {
    if (!this.#isFound) return this.flush();
    this.#finding ??= this.#scanFile();
    await this.#finding;
  }

  /** Scans the file of a call that an earlier daemon ran. */
  async #scanFile(): Promise<void> {
    let { seq, offset, at } = START;
    let end: { state: CallState; cut?: CutReason } | undefined;
    await using file = await open(this.path, 'r');
    for await (const records of readRecords(file, 0, this.#stored.at)) {
      for (const { kind, data } of records) {
        at += HEAD_BYTES + data.length;
        if (kind === 'end') end = parse(data);
        if (kind !== 'stdout' && kind !== 'stderr') continue;
        seq += 1;
        offset += data.length;
        if (at - (this.#marks.at(-1) as LogPosition).at >= MARK_EVERY_BYTES) this.#marks.push({ seq, offset, at });
      }
    }
    this.#stored = { seq, offset, at };
    this.#state = end?.state ?? { status: 'error' };
    this.#cut = end ? end.cut : 'crash';
  }
}

const META_BYTES_MAX = 4096;

const toJson = (value: object): Buffer => Buffer.from(JSON.stringify(value));

function parse<T extends object>(data: Buffer): T | undefined {
  const value = jsonOr(data.toString('utf8'), undefined);
  return typeof value === 'object' && value !== null ? (value as T) : undefined;
}
