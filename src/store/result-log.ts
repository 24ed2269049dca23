/**
 * The complete output of calls without secrets, in files of the state directory, limited in size for each call, total size and age. The
 * oldest of the principal who keeps most are dropped first. Nothing here blocks the event loop, and no file error ends a call.
 */
import { chmodSync, mkdirSync, rmSync } from 'node:fs';
import { readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { CallState } from '../base/call.ts';
import type { Limits } from '../base/limits.ts';
import type { Powers, Timer } from '../base/powers.ts';
import { CallLog, type CallLogOptions, type CutReason, type LogOwner, type StreamName } from './call-log.ts';
import type { DiskRoom } from './disk-room.ts';

export interface ResultLogOptions {
  /** Absolute path; created if missing. */
  readonly folder: string;
  readonly limits: Limits;
  readonly powers: Powers;
  /** Room on the disk; without it only the limits apply. */
  readonly room?: DiskRoom;
}

export interface AppendedChunk {
  /** Number of the chunk in its call's output, from 1. */
  readonly seq: number;
  /** Name of the log for `results.read`. */
  readonly ref: string;
  /** Settles when the next chunk should come; absent if it may come at once. Never rejects. */
  readonly written?: Promise<void>;
}

const SWEEP_EVERY_MS = 60_000;
const NAME = /^([0-9a-f-]{36})\.log$/;

/** What a principal keeps. */
interface ResultShare {
  readonly logs: number;
  readonly bytes: number;
}

const principalOf = ({ storedFor, principal = '' }: LogOwner): string => storedFor ?? principal;
const keyOf = ({ sessionId, callId }: LogOwner): string => `${sessionId}\0${callId}`;

export class ResultLog implements AsyncDisposable {
  readonly #options: ResultLogOptions;
  /** Logs by ref, oldest first. */
  readonly #logs = new Map<string, CallLog>();
  readonly #byCall = new Map<string, CallLog>();
  readonly #loaded: Promise<void>;
  /** Files being completed or removed. */
  readonly #under = new Set<Promise<void>>();
  readonly #shares = new Map<string, ResultShare>();
  #bytes = 0;
  /** Bytes buffered in memory by all logs. */
  #bufferedBytes = 0;
  #sweep: Timer | undefined;
  #closed = false;

  /** Takes over the logs of an earlier daemon. Throws what mkdir throws. */
  constructor(options: ResultLogOptions) {
    this.#options = options;
    mkdirSync(options.folder, { recursive: true, mode: 0o700 });
    chmodSync(options.folder, 0o700);
    this.#loaded = this.#findAll().catch((error: unknown) =>
      options.powers.log.warn({ error }, 'could not scan the output of earlier calls'),
    );
    void this.#loaded.then(() => this.#sweepLater());
    options.room?.register('results', () => this.#dropOldest('bytes', { atOnce: true }));
  }

  /** Appends output of a call. The secrets in it must already be removed. */
  append(owner: LogOwner, stream: StreamName, data: Uint8Array): AppendedChunk {
    const log = this.#byCall.get(keyOf(owner)) ?? this.#openLog(owner);
    return { ...log.append(stream, data), ref: log.ref };
  }

  /** Ends the log of a call, if the call had output. */
  end(owner: LogOwner, state: CallState): void {
    const log = this.#byCall.get(keyOf(owner));
    if (log && log.endedAt === undefined) this.#track(log.end(state));
  }

  /** The log of a call, of any session if none is given; undefined if it had no output or was dropped. */
  async ofCall(callId: string, sessionId?: string): Promise<CallLog | undefined> {
    await this.#loaded;
    this.#dropOld();
    if (sessionId !== undefined) return this.#byCall.get(keyOf({ sessionId, callId }));
    return [...this.#logs.values()].findLast(({ owner }) => owner.callId === callId);
  }

  /** Owners of kept output, newest first. */
  async owners(): Promise<LogOwner[]> {
    await this.#loaded;
    this.#dropOld();
    return [...this.#logs.values()].map(({ owner }) => owner).reverse();
  }

  async byRef(ref: string): Promise<CallLog | undefined> {
    await this.#loaded;
    this.#dropOld();
    return this.#logs.get(ref);
  }

  /** Ends all logs; settles when everything is written. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    this.#sweep?.cancel();
    await this.#loaded;
    for (const { owner } of this.#logs.values()) this.end(owner, { status: 'error' });
    await Promise.all(this.#under);
  }

  #openLog(owner: LogOwner): CallLog {
    const log = new CallLog({ ...this.#optionsOf(this.#options.powers.uuid(), () => principalOf(owner)), owner });
    this.#add(log);
    return log;
  }

  #optionsOf(ref: string, principal: () => string): Omit<CallLogOptions, 'owner'> {
    const { folder, limits, powers } = this.#options;
    return {
      ref,
      powers,
      path: join(folder, `${ref}.log`),
      bytesMax: limits.resultLogBytesMax,
      refusal: (bytes) => this.#refusal(bytes, principal()),
      onWritten: (bytes, lost) => {
        this.#bufferedBytes -= bytes;
        this.#options.room?.wrote(bytes - lost);
        if (this.#logs.has(ref)) this.#count(principal(), { logs: 0, bytes: -lost });
      },
    };
  }

  #add(log: CallLog): void {
    this.#logs.set(log.ref, log);
    this.#byCall.set(keyOf(log.owner), log);
    this.#count(principalOf(log.owner), { logs: 1, bytes: 0 });
    if (this.#logs.size > this.#options.limits.resultLogsMax) this.#dropOldest('logs');
  }

  /** Why no more output may be buffered: running logs fill the allowed size, or the disk is full or too slow. */
  #refusal(bytes: number, principal: string): CutReason | undefined {
    const { resultLogTotalBytesMax, resultLogWaitingBytesMax } = this.#options.limits;
    if (this.#bufferedBytes + bytes > resultLogWaitingBytesMax) return 'disk';
    while (this.#bytes + bytes > resultLogTotalBytesMax) if (!this.#dropOldest('bytes')) return 'size';
    const { room } = this.#options;
    while (room && !room.has(bytes, this.#bufferedBytes)) if (!this.#dropOldest('bytes')) return 'disk';
    this.#bufferedBytes += bytes;
    this.#count(principal, { logs: 0, bytes });
    return undefined;
  }

  /** Drops the oldest output of the principal who keeps most, so that nobody can make others lose theirs; false if all calls still run. */
  #dropOldest(by: keyof ResultShare, how: { readonly atOnce?: boolean } = {}): boolean {
    const oldest = new Map<string, CallLog>();
    for (const log of this.#logs.values()) {
      const principal = principalOf(log.owner);
      if (log.endedAt !== undefined && !oldest.has(principal)) oldest.set(principal, log);
      if (oldest.size === this.#shares.size) break;
    }
    const [largest] = [...oldest].sort(([a], [b]) => this.#shareOf(b)[by] - this.#shareOf(a)[by]);
    if (largest) this.#drop(largest[1], how);
    return largest !== undefined;
  }

  #shareOf(principal: string): ResultShare {
    return this.#shares.get(principal) ?? { logs: 0, bytes: 0 };
  }

  #count(principal: string, { logs, bytes }: ResultShare): void {
    this.#bytes += bytes;
    const share = this.#shareOf(principal);
    const after = { logs: share.logs + logs, bytes: share.bytes + bytes };
    if (after.logs > 0) this.#shares.set(principal, after);
    else this.#shares.delete(principal);
  }

  #dropOld(): void {
    const { limits, powers } = this.#options;
    const since = powers.now() - limits.resultLogKeptMs;
    for (const log of this.#logs.values()) if (log.endedAt !== undefined && log.endedAt <= since) this.#drop(log);
  }

  /** Removes a log and its file; `atOnce` removes the file synchronously, since something waits for the room. */
  #drop(log: CallLog, { atOnce = false }: { readonly atOnce?: boolean } = {}): void {
    this.#logs.delete(log.ref);
    if (this.#byCall.get(keyOf(log.owner)) === log) this.#byCall.delete(keyOf(log.owner));
    this.#count(principalOf(log.owner), { logs: -1, bytes: -log.fileBytes });
    if (atOnce) rmSync(log.path, { force: true });
    // The log's last records may still be on their way to the file.
    const gone = log.flush().then(() => rm(log.path, { force: true }));
    if (!atOnce) this.#options.room?.leaves(log.fileBytes, gone);
    this.#track(gone);
  }

  #sweepLater(): void {
    if (this.#closed) return;
    const { powers, limits } = this.#options;
    this.#sweep = powers.after(Math.min(SWEEP_EVERY_MS, limits.resultLogKeptMs), () => {
      this.#dropOld();
      this.#sweepLater();
    });
  }

  async #findAll(): Promise<void> {
    const { folder, limits, powers } = this.#options;
    const refs = (await readdir(folder)).sort().flatMap((name) => NAME.exec(name)?.[1] ?? []);
    const old = new Set(refs.filter((ref) => !this.#logs.has(ref)));
    for (const ref of old) {
      if (this.#closed) return;
      await this.#findOne(ref).catch((error: unknown) =>
        powers.log.warn({ error, ref }, 'skipped a result log that can not be read'),
      );
    }
    // Moves new logs behind the old ones, since the first ones are dropped first.
    for (const [ref, log] of [...this.#logs]) if (!old.has(ref) && this.#logs.delete(ref)) this.#logs.set(ref, log);
    this.#dropOld();
    while (this.#bytes > limits.resultLogTotalBytesMax && this.#dropOldest('bytes'));
    while (this.#logs.size > limits.resultLogsMax && this.#dropOldest('logs'));
  }

  async #findOne(ref: string): Promise<void> {
    // Nothing is appended to the log of an earlier daemon.
    const options = this.#optionsOf(ref, () => '');
    const { size, mtimeMs } = await stat(options.path);
    const log = await CallLog.openExisting(options, size);
    if (!log) return rm(options.path, { force: true });
    log.endedAt = mtimeMs;
    this.#count(principalOf(log.owner), { logs: 1, bytes: size });
    this.#logs.set(ref, log);
    this.#byCall.set(keyOf(log.owner), log);
  }

  #track(work: Promise<void>): void {
    const { powers } = this.#options;
    const done = work.catch((error: unknown) =>
      powers.log.warn({ error }, 'a file of the result log could not be removed'),
    );
    this.#under.add(done);
    void done.finally(() => this.#under.delete(done));
  }
}
