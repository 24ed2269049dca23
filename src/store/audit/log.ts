/** The audit log: what was requested, decided and done, in order, hash-chained and signed. */
import { statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { ToolError } from '../../base/errors.ts';
import type { Limits } from '../../base/limits.ts';
import type { Powers, Timer } from '../../base/powers.ts';
import { atomically, openDatabase, type Prepared, prepared } from '../database.ts';
import { AuditBudget } from './budget.ts';
import { type ChainPosition, createKey, readKey, type SigningKey } from './chain.ts';
import { CHECKPOINT_SCHEMA, Checkpoints } from './checkpoints.ts';
import type { CountedRecord } from './daily.ts';
import { AUDIT_SCHEMA, type AuditEntry, type AuditRow, COLUMNS, hashOf, toRow } from './entry.ts';
import { type ExportFormat, toExportLine } from './export.ts';
import { firstOf, lastOf, WRITING } from './file.ts';
import { AuditMeter } from './meter.ts';
import { type AuditFilter, type AuditPage, type AuditPageRequest, AuditQueries, type SeqRange } from './query.ts';
import { type AuditCut, type AuditPrune, bytesOf, dropOldest, shareToDrop } from './retention.ts';
import { type LogDetail, readEnd, type Verification, verifyLog } from './verify.ts';

export type { AuditEntry, AuditRecord } from './entry.ts';

export interface AuditOptions {
  /** Hides secrets in inputs, effects and details before they are stored. Without it, inputs are not stored. */
  readonly redact?: (value: unknown) => unknown;
  /** Makes room on the disk; returns whether it could. */
  readonly makeRoom?: () => boolean;
  /** Called with the last seq whenever entries were written. */
  readonly onWritten?: (seq: number) => void;
}

const HEAD_SCHEMA = `CREATE TABLE IF NOT EXISTS head (
  id INTEGER PRIMARY KEY CHECK (id = 1), seq INTEGER NOT NULL, hash TEXT NOT NULL, seal TEXT NOT NULL) STRICT;`;

/** Delay of a write, in milliseconds. A transaction costs as much as hundreds of rows and would delay answers of the same turn. */
const WRITE_EVERY_MS = 10;
/** Delay after a failed write, in milliseconds. Each attempt may wait a second for a database lock, during which the daemon is blocked. */
const RETRY_EVERY_MS = 5000;
const RETAIN_EVERY_MS = 3_600_000;
/** Session and principal of entries that the log writes about itself. */
const SELF = { kind: 'policy', sessionId: 'daemon', principal: 'daemon' } as const;

export class AuditLog implements Disposable {
  readonly #database: DatabaseSync;
  readonly #powers: Powers;
  readonly #limits: Limits;
  readonly #redact: AuditOptions['redact'];
  readonly #onWritten: AuditOptions['onWritten'];
  readonly #makeRoom: AuditOptions['makeRoom'];
  readonly #keyPath: string;
  readonly #key: SigningKey;
  readonly #checkpoints: Checkpoints;
  readonly #queries: AuditQueries;
  readonly #statements: Prepared<typeof WRITING>;
  readonly #firstOfRun: number;
  readonly #meter: AuditMeter;
  readonly #budget: AuditBudget;
  #head: ChainPosition;
  #first: number;
  #pendingRows: AuditRow[] = [];
  #lostRows = 0;
  #writable = true;
  /** Whether the log was larger than allowed when last measured. */
  #overSize = false;
  #write: Timer | undefined;
  #sign: Timer | undefined;
  #retain: Timer | undefined;
  #retaining = false;
  /** The running verification or retention; each waits for the previous one. */
  #exclusive: Promise<unknown> = Promise.resolve();

  /** Opens or creates the log; its key and checkpoints lie beside it. Throws ToolError STORE_FAILED, and file system errors. */
  constructor(path: string, limits: Limits, powers: Powers, options: AuditOptions = {}) {
    const beside = (ending: string) => join(dirname(path), `${basename(path, '.db')}.${ending}`);
    this.#powers = powers;
    this.#limits = limits;
    this.#redact = options.redact;
    this.#onWritten = options.onWritten;
    this.#makeRoom = options.makeRoom;
    this.#keyPath = beside('key');
    this.#database = openDatabase(path, AUDIT_SCHEMA + CHECKPOINT_SCHEMA + HEAD_SCHEMA);
    this.#statements = prepared(this.#database, WRITING);
    const key = readKey(this.#keyPath);
    this.#key = key ?? createKey(this.#keyPath, powers);
    this.#checkpoints = new Checkpoints(this.#database, beside('checkpoints'), this.#key);
    this.#queries = new AuditQueries(this.#database, limits, powers);
    this.#budget = new AuditBudget(limits, powers, () => bytesOf(this.#database));
    this.#meter = new AuditMeter({ limits, powers, budget: this.#budget, append: (it) => this.#add(it) });
    this.#head = lastOf(this.#database);
    this.#first = firstOf(this.#database);
    this.#firstOfRun = this.#head.seq + 1;
    const broken = this.#whatIsBroken(key === undefined);
    if (broken !== undefined) powers.log.error({ broken }, 'the audit log was changed since the daemon last ran');
    if (broken !== undefined) this.#note({ broken });
    this.#tryFlush();
    this.#trySign();
    this.#retain = powers.after(0, () => this.#retainOften());
  }

  /** Number of entries, written and waiting. */
  get entries(): number {
    return this.#head.seq - this.#first + 1 + this.#pendingRows.length;
  }

  /** False from a failed write until the next success; calls that may change something must not run meanwhile. */
  get writable(): boolean {
    return this.#writable;
  }

  /**
   * Reported by `status`. `overSize` means that entries too young to be dropped make the log larger than allowed, so new inputs are
   * shortened.
   */
  get status(): { entries: number; writable: boolean; overSize?: true } {
    return { entries: this.entries, writable: this.#writable, ...(this.#overSize && { overSize: true }) };
  }

  /** Reads one row, which shows that the database answers. Rejects with SQLite's error. */
  async answers(): Promise<void> {
    this.#database.prepare('SELECT seq FROM audit ORDER BY seq DESC LIMIT 1').get();
  }

  /** Throws RATE_LIMITED if a principal's call that may change something could not be recorded any more. */
  assertRoom(principal: string): void {
    this.#budget.assertRoom(principal);
  }

  /**
   * Adds an entry, written with others within WRITE_EVERY_MS; `flush` writes immediately. `isReading` marks entries of calls that could
   * change nothing.
   */
  append(entry: AuditEntry, { isReading = false }: { readonly isReading?: boolean } = {}): void {
    const { kind, detail } = entry;
    // Only the log itself may write details under `log`.
    if (kind === 'policy' && detail && 'log' in detail) {
      const { log: _, ...others } = detail;
      return this.append({ ...entry, detail: others });
    }
    if (this.#meter.admits(entry, isReading)) this.#add(entry);
  }

  /** Writes waiting entries in order in one transaction. Throws STORE_FAILED and keeps them for the next attempt, up to the bound. */
  flush(): void {
    if (this.#pendingRows.length === 0) return;
    try {
      this.#writeWaiting();
    } catch (cause) {
      // A full disk is the only cause that can be remedied.
      if (!this.#makeRoom?.()) this.#failed(cause);
      try {
        this.#writeWaiting();
      } catch (again) {
        this.#failed(again);
      }
    }
    this.#pendingRows = [];
    this.#lostRows = 0;
    this.#writable = true;
    this.#signSoon();
    this.#onWritten?.(this.#head.seq);
  }

  #failed(cause: unknown): never {
    this.#writable = false;
    this.#writeAfter(RETRY_EVERY_MS);
    throw new ToolError('STORE_FAILED', 'the audit log could not be written', { cause });
  }

  #writeWaiting(): void {
    const lost = this.#lostRows > 0 ? [this.#toRow({ ...SELF, detail: { log: { lost: this.#lostRows } } })] : [];
    const rows = [...lost, ...this.#pendingRows];
    const { insert, setHead } = this.#statements;
    let { seq, hash } = this.#head;
    atomically(this.#database, () => {
      for (const row of rows) {
        row.seq = ++seq;
        row.previousHash = hash;
        row.hash = hash = hashOf(row);
        insert.run(...COLUMNS.map((it) => row[it]));
      }
      setHead.run(seq, hash, this.#key.seal({ seq, hash }));
    });
    this.#head = { seq, hash };
  }

  /** A page of entries. Rejects with RpcError INVALID_PARAMS, ToolError SHUTTING_DOWN. */
  async query(request: AuditPageRequest): Promise<AuditPage> {
    this.#tryFlush();
    return this.#queries.page(request, this.#extent);
  }

  /** All entries that match `filter`, in its order. Throws as `query` does. */
  records(filter: AuditFilter): ReturnType<AuditQueries['records']> {
    this.#tryFlush();
    return this.#queries.records(filter, this.#extent);
  }

  /** The result of `count`, which counts the entries so far. */
  counted<Counts>(count: (record: CountedRecord) => Promise<Counts>): Promise<Counts> {
    this.#tryFlush();
    return count({ database: this.#database, extent: this.#extent, powers: this.#powers });
  }

  /** All entries that match `filter`, oldest first, as lines without newlines. Throws as `query` does. */
  async *exportEntries(format: ExportFormat, filter: AuditFilter = {}): AsyncGenerator<string> {
    for await (const it of this.records({ ...filter, order: 'oldest' })) yield toExportLine(format, it);
  }

  /** Verifies the whole log. Findings are returned, not thrown; rejects with SHUTTING_DOWN if the log is closed meanwhile. */
  verify(): Promise<Verification> {
    return this.#runExclusively(async () => {
      this.#tryFlush();
      this.#trySign();
      const { path } = this.#checkpoints;
      const found = await verifyLog({
        database: this.#database,
        keyPath: this.#keyPath,
        checkpointsPath: path,
        checkpointBytes: statSync(path, { throwIfNoEntry: false })?.size,
        lastInTable: this.#checkpoints.lastInTable,
        head: this.#head,
        powers: this.#powers,
      });
      if (!this.#database.isOpen) throw new ToolError('SHUTTING_DOWN', 'the audit log was closed');
      return found;
    });
  }

  /**
   * Drops what an operator asks to drop, else entries beyond the allowed age and size; the latter runs at start and hourly by itself.
   * Returns their number. Rejects with STORE_FAILED, SHUTTING_DOWN and SQLite's errors.
   */
  dropOldest(prune?: AuditPrune): Promise<number> {
    return this.#runExclusively(async () => {
      const parts = {
        database: this.#database,
        checkpoints: this.#checkpoints,
        limits: this.#limits,
        powers: this.#powers,
        extent: () => this.#extent,
        record: (cut: AuditCut) => this.#recordCut(cut),
      };
      const dropped = await dropOldest(parts, prune);
      if (!this.#database.isOpen) return dropped;
      this.#first = firstOf(this.#database);
      this.#budget.remeasure();
      this.#overSize = shareToDrop({ database: this.#database, limits: this.#limits }) > 0;
      return dropped;
    });
  }

  [Symbol.dispose](): void {
    this.#meter[Symbol.dispose]();
    this.#tryFlush();
    this.#trySign();
    for (const timer of [this.#write, this.#sign, this.#retain]) timer?.cancel();
    if (this.#database.isOpen) this.#database.close();
  }

  get #extent(): SeqRange {
    return { first: this.#first, last: this.#head.seq, firstOfRun: this.#firstOfRun };
  }

  #runExclusively<T>(run: () => T | Promise<T>): Promise<T> {
    const isClosed = () => !this.#database.isOpen;
    const mine = this.#exclusive.then(() => {
      if (isClosed()) throw new ToolError('SHUTTING_DOWN', 'the audit log was closed');
      return run();
    });
    this.#exclusive = mine.catch(() => {}); // The caller receives the error from `mine`.
    return mine;
  }

  #note(log: NonNullable<LogDetail['log']>): void {
    this.#add({ ...SELF, detail: { log } });
  }

  #add(entry: AuditEntry): void {
    const row = this.#toRow(entry);
    this.#pendingRows.push(row);
    this.#budget.charge(entry.principal, row);
    const { auditBatchMax } = this.#limits;
    if (this.#pendingRows.length < auditBatchMax) return this.#writeAfter(WRITE_EVERY_MS);
    if (this.#writable) return this.#tryFlush();
    // Calls with effects are refused meanwhile; among the others, the oldest entries are dropped.
    this.#lostRows += this.#pendingRows.length - auditBatchMax;
    this.#pendingRows = this.#pendingRows.slice(-auditBatchMax);
    this.#writeAfter(RETRY_EVERY_MS);
  }

  #toRow(entry: AuditEntry): AuditRow {
    const at = new Date(this.#powers.now()).toISOString();
    const { input, effects, detail, tool, callId, ...others } = entry;
    const redacted = {
      ...(this.#redact && { input: this.#redacted(input) }),
      effects: this.#redacted(effects),
      // Callers choose the tool's name and the call id.
      tool: this.#redacted(tool),
      callId: this.#redacted(callId),
      detail: this.#redacted(detail),
    };
    const { auditFieldCharsMax, auditRefusalCharsMax } = this.#limits;
    const isShort = entry.kind === 'refusal' || this.#overSize;
    const wholeEntry = { ...others, ...(redacted as Partial<AuditEntry>) };
    return toRow(wholeEntry, at, this.#limits, isShort ? auditRefusalCharsMax : auditFieldCharsMax);
  }

  #redacted(value: unknown): unknown {
    if (value === undefined || !this.#redact) return value;
    try {
      return this.#redact(value);
    } catch (error) {
      this.#powers.log.error({ error }, 'a value could not be redacted and is left out of the audit log');
      return '[left out: it could not be redacted]';
    }
  }

  #writeAfter(delayMs: number): void {
    this.#write ??= this.#powers.after(delayMs, () => {
      this.#write = undefined;
      this.#tryFlush();
    });
  }

  #tryFlush(): void {
    if (!this.#database.isOpen) return;
    try {
      this.flush();
    } catch (error) {
      this.#powers.log.error({ error: (error as Error).cause }, 'the audit log could not be written');
    }
  }

  #signSoon(): void {
    const { auditCheckpointEntries, auditCheckpointMs } = this.#limits;
    if (this.#head.seq - (this.#checkpoints.last?.seq ?? 0) >= auditCheckpointEntries) {
      this.#trySign();
      return this.#retainOften(); // An hour at this rate could fill the disk.
    }
    this.#sign ??= this.#powers.after(auditCheckpointMs, () => {
      this.#sign = undefined;
      this.#trySign();
    });
  }

  #trySign(): void {
    if (!this.#database.isOpen) return;
    try {
      this.#checkpoints.complete();
      this.#signHead();
    } catch (error) {
      this.#powers.log.error({ error }, 'a checkpoint of the audit log could not be written');
    }
  }

  #signHead(): void {
    if (this.#checkpoints.last?.seq === this.#head.seq) return;
    this.#checkpoints.add(this.#key.sign({ ...this.#head, at: new Date(this.#powers.now()).toISOString() }));
  }

  #recordCut(cut: AuditCut): void {
    this.#note({ dropped: cut });
    this.flush();
    this.#signHead();
  }

  #retainOften(): void {
    if (this.#retaining || !this.#database.isOpen) return;
    this.#retaining = true;
    this.#retain?.cancel();
    this.dropOldest()
      .catch((error: unknown) => this.#powers.log.error({ error }, 'old audit entries could not be dropped'))
      .finally(() => {
        this.#retaining = false;
        if (this.#database.isOpen) this.#retain = this.#powers.after(RETAIN_EVERY_MS, () => this.#retainOften());
      });
  }

  /** How the log was tampered with since it was closed, as far as can be seen quickly; `verify` checks everything. */
  #whatIsBroken(isNewKey: boolean): string | undefined {
    const { seq } = this.#head;
    const { last } = this.#checkpoints;
    if (isNewKey && (seq > 0 || last)) return 'its signing key was missing';
    if (!last) return seq > 0 ? 'its file of checkpoints was missing, empty or damaged' : undefined;
    if (this.#checkpoints.problem !== undefined) return this.#checkpoints.problem;
    if (last.seq > seq) return `it ended at entry ${seq} and was signed up to entry ${last.seq}`;
    const end = readEnd(this.#database);
    if (seq > 0 && (end?.seq !== seq || end.hash !== this.#head.hash || !this.#key.isSealed(this.#head, end.seal)))
      return 'the seal of its end was missing or not ours';
    return undefined;
  }
}
