/**
 * The output of one call on disk, as it came: an entry a chunk, numbered from 1. What is appended waits in memory, is written
 * beside the loop, and can be read at once. A log that can't go on stays what it is, and says why; its call goes on.
 */
import { type FileHandle, open } from 'node:fs/promises';
import type { CallState } from '../call.ts';
import { parseJson } from '../parse-json.ts';
import type { Powers } from '../powers.ts';
import { HEAD_BYTES, type Kind, putRecord, readRecords } from './log-records.ts';

export type StreamName = 'stdout' | 'stderr';

export interface LogOwner {
  readonly sessionId: string;
  readonly callId: string;
  /** Whose call it was, where that one may read it from another session: it was detached. */
  readonly principal?: string;
}

/** Why a log ends before its call: it is full, the disk is (or too slow), the daemon ended first. */
export type Cut = 'size' | 'disk' | 'crash';

export interface LogEntry {
  readonly seq: number;
  readonly stream: StreamName;
  readonly data: Uint8Array;
}

/** What there is of a log. */
export interface Extent {
  readonly bytesTotal: number;
  /** Of the last entry. */
  readonly seq: number;
  /** Absent while the call goes on. */
  readonly state?: CallState;
  readonly cut?: Cut;
}

export interface CallLogOptions {
  readonly path: string;
  readonly ref: string;
  readonly owner: LogOwner;
  readonly bytesMax: number;
  readonly powers: Powers;
  /** Asked before bytes are taken into memory; gives why they may not be. */
  refusal(bytes: number): Cut | undefined;
  /** These bytes are in memory no more; where they are lost, they will not be in the file either. */
  onWritten(bytes: number, lost: number): void;
}

/** A place between two records. */
interface Place {
  /** Of the entry before it. */
  readonly seq: number;
  /** Bytes of output before it. */
  readonly offset: number;
  /** Bytes of the file before it. */
  readonly at: number;
}

const START: Place = { seq: 0, offset: 0, at: 0 };
/** Between two places that are remembered, so that reading on need not begin at the start. */
const MARK_EVERY_BYTES = 256 * 1024;
/** What waits for longer, or is more, is written. Whoever brings more than that waits for it. */
const WRITE_AFTER_MS = 100;
const WRITE_BYTES = 256 * 1024;
const ROOM_BYTES_MIN = 1024;
const ENTRIES_MAX = 1000;

export class CallLog {
  readonly owner: LogOwner;
  readonly ref: string;
  readonly path: string;
  /** When its call ended, in milliseconds since the epoch; undefined while it goes on. */
  endedAt: number | undefined;
  readonly #options: CallLogOptions;
  #seq = 0;
  /** Behind what was taken, and behind what of it is on disk. */
  #taken = START;
  #stored = START;
  #marks: Place[] = [START];
  #state: CallState | undefined;
  #cut: Cut | undefined;
  /** Records not yet written: full rooms, then one that is being filled. */
  #rooms: { room: Buffer<ArrayBuffer>; used: number }[] = [];
  #room = Buffer.alloc(0);
  #roomUsed = 0;
  /** One that was written, to be filled again: memory that is new each time costs more than what is done with it. */
  #spare: Buffer<ArrayBuffer> | undefined;
  #file: FileHandle | undefined;
  #writing: Promise<void> | undefined;
  #later: { cancel(): void } | undefined;
  /** Whether a daemon before this one made it, and what it holds, once somebody asked. */
  #isFound = false;
  #finding: Promise<void> | undefined;
  #hasFailed = false;

  constructor(options: CallLogOptions) {
    this.#options = options;
    this.owner = options.owner;
    this.ref = options.ref;
    this.path = options.path;
  }

  /** The log of a call of a daemon before this one; undefined where the file is none. */
  static async found(options: Omit<CallLogOptions, 'owner'>, bytes: number): Promise<CallLog | undefined> {
    await using file = await open(options.path, 'r');
    for await (const [first] of readRecords(file, 0, Math.min(bytes, META_BYTES_MAX))) {
      const owner = first?.kind === 'meta' ? parse<LogOwner>(first.data) : undefined;
      if (!owner) break;
      const log = new CallLog({ ...options, owner });
      log.#taken = log.#stored = { ...START, at: bytes };
      log.#isFound = true;
      return log;
    }
    return undefined;
  }

  /** Bytes of its file, those to be written included. */
  get fileBytes(): number {
    return this.#taken.at;
  }

  /** Adds a chunk. `written` settles when more had better come; absent where it may come at once. */
  append(stream: StreamName, data: Uint8Array): { seq: number; written?: Promise<void> } {
    this.#seq += 1;
    const { seq } = this.#taken;
    if (this.#cut || this.#state) return { seq: this.#seq };
    if (this.#taken.at === 0 && !this.#put('meta', toJson(this.owner))) return { seq: this.#seq };
    if (this.#taken.at + HEAD_BYTES + data.length > this.#options.bytesMax) this.#cut = 'size';
    else if (this.#put(stream, data)) {
      const { offset, at } = this.#taken;
      this.#taken = { seq: seq + 1, offset: offset + data.length, at };
      if (at - (this.#marks.at(-1) as Place).at >= MARK_EVERY_BYTES) this.#marks.push(this.#taken);
    }
    return this.#waiting < WRITE_BYTES ? { seq: this.#seq } : { seq: this.#seq, written: this.flush() };
  }

  /** Nothing comes after it. Settles when all is written, and never rejects. */
  async end(state: CallState): Promise<void> {
    if (this.#state) return;
    this.#state = state;
    this.endedAt = this.#options.powers.now();
    const cut = this.#cut;
    if (this.#taken.at > 0 && !this.#hasFailed) this.#put('end', toJson({ state, cut }));
    this.#cut = cut; // An end that finds no place takes nothing from what is there.
    await this.flush();
    await this.#file?.close().catch(() => {}); // The last error of a disk that failed before.
    this.#file = undefined;
    this.#spare = undefined;
  }

  /** Settles when what was appended so far is on disk, or can't be; never rejects. */
  async flush(): Promise<void> {
    for (const upTo = this.#taken.at; this.#stored.at < upTo && this.#waiting > 0; ) {
      this.#writing ??= this.#write().finally(() => {
        this.#writing = undefined;
      });
      await this.#writing;
    }
  }

  /** What there is now. Throws what the file system throws where the file is gone. */
  async extent(): Promise<Extent> {
    await this.#ready();
    const [state, cut] = [this.#state, this.#cut];
    const { offset: bytesTotal, seq } = this.#stored;
    return { bytesTotal, seq, ...(state && { state }), ...(cut && { cut }) };
  }

  /** Entries after `seq`, the next ones first: about `bytesMax` bytes of them, and one at least where there is one. */
  async after(seq: number, bytesMax: number): Promise<LogEntry[]> {
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

  /** `limit` bytes of output from `offset` on, both streams as they came; fewer at the end. */
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

  async *#entries(isBefore: (place: Place) => boolean): AsyncGenerator<LogEntry & { offset: number }> {
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

  get #waiting(): number {
    return this.#taken.at - this.#stored.at;
  }

  /** Takes a record into memory; false where there is no place for it. */
  #put(kind: Kind, data: Uint8Array): boolean {
    const bytes = HEAD_BYTES + data.length;
    const refusal = this.#options.refusal(bytes);
    if (refusal) {
      this.#cut = refusal;
      return false;
    }
    // Small chunks share a room, or each would cost many times its size.
    if (this.#roomUsed + bytes > this.#room.length) {
      this.#takeRoom();
      const size = Math.min(WRITE_BYTES, Math.max(ROOM_BYTES_MIN, this.#waiting));
      this.#room = this.#spareOf(bytes) ?? Buffer.allocUnsafe(Math.max(size, bytes));
    }
    this.#roomUsed = putRecord(this.#room, this.#roomUsed, kind, data);
    this.#taken = { ...this.#taken, at: this.#taken.at + bytes };
    this.#later ??= this.#options.powers.after(WRITE_AFTER_MS, () => {
      this.#later = undefined;
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

  /** Writes what waits now. */
  async #write(): Promise<void> {
    this.#later?.cancel();
    this.#later = undefined;
    this.#takeRoom();
    const rooms = this.#rooms.splice(0);
    const upTo = this.#taken;
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

  /** What is whole on disk stays readable; what waited is lost. */
  async #giveUp(error: unknown): Promise<void> {
    const { powers, onWritten } = this.#options;
    powers.log.warn(
      { error, callId: this.owner.callId },
      'the output of a call could not be written; its log ends here',
    );
    this.#cut = 'disk';
    this.#hasFailed = true;
    await this.#file?.truncate(this.#stored.at).catch(() => {}); // Readers stop at `#stored` all the same.
    onWritten(this.#waiting, this.#waiting);
    this.#taken = this.#stored;
    this.#marks = this.#marks.filter((it) => it.at <= this.#stored.at);
    this.#rooms = [];
    this.#room = Buffer.alloc(0);
    this.#roomUsed = 0;
  }

  async #ready(): Promise<void> {
    if (!this.#isFound) return this.flush();
    this.#finding ??= this.#find();
    await this.#finding;
  }

  /** Goes through the file of a call that ended with another daemon. */
  async #find(): Promise<void> {
    let { seq, offset, at } = START;
    let end: { state: CallState; cut?: Cut } | undefined;
    await using file = await open(this.path, 'r');
    for await (const records of readRecords(file, 0, this.#stored.at)) {
      for (const { kind, data } of records) {
        at += HEAD_BYTES + data.length;
        if (kind === 'end') end = parse(data);
        if (kind !== 'stdout' && kind !== 'stderr') continue;
        seq += 1;
        offset += data.length;
        if (at - (this.#marks.at(-1) as Place).at >= MARK_EVERY_BYTES) this.#marks.push({ seq, offset, at });
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
  try {
    const value: unknown = parseJson(data.toString('utf8'));
    return typeof value === 'object' && value !== null ? (value as T) : undefined;
  } catch {
    return undefined; // SyntaxError: not written by us.
  }
}
