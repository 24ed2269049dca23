/** Verifies the whole log and finds the first position that was tampered with. */

import type { DatabaseSync } from 'node:sqlite';
import type * as z from 'zod';
import type { Powers } from '../../base/powers.ts';
import type { Read } from '../../base/result-shapes.ts';
import { TimeSlices } from '../time-slices.ts';
import { type ChainPosition, type Checkpoint, GENESIS, readKey, type SigningKey } from './chain.ts';
import { linesOf, parseCheckpoint } from './checkpoints.ts';
import { type AuditRow, hashOf, isWellFormed } from './entry.ts';
import type { AuditCut } from './retention.ts';
import type { verification } from './shapes.ts';

/** Result of `audit.verify`. */
export type Verification = Read<z.output<typeof verification>>;
/** An operator's removal of entries. */
export type Pruned = NonNullable<Verification['pruned']>;

export interface VerificationInput {
  readonly database: DatabaseSync;
  readonly keyPath: string;
  readonly checkpointsPath: string;
  /** Bytes of the checkpoint file to read; undefined if the file is missing. */
  readonly checkpointBytes: number | undefined;
  /** Seq of the last checkpoint in the table, as the log's writer remembers it. */
  readonly lastInTable: number;
  /** The end of the log, as its writer remembers it; nothing on disk can change that. */
  readonly head: ChainPosition;
  readonly powers: Powers;
}

/** Entries and table rows read at once; at their largest, 64 take 20 ms. */
const PAGE = 64;

class ChainBroken extends Error {
  readonly seq: number | undefined;
  constructor(seq: number | undefined, reason: string) {
    super(reason);
    this.seq = seq;
  }
}

/** Verifies the log. Findings are returned, never thrown. Holds one page of entries in memory. */
export async function verifyLog(walk: VerificationInput): Promise<Verification> {
  const verifier = new Verifier(walk);
  try {
    await verifier.run();
    return { ok: true, entries: verifier.entries, ...verifier.dropped };
  } catch (error) {
    const { message } = error as Error;
    const seq = error instanceof ChainBroken ? error.seq : verifier.next;
    return {
      ok: false,
      entries: verifier.entries,
      ...verifier.dropped,
      ...(seq !== undefined && { firstBroken: seq }),
      reason: error instanceof ChainBroken ? message : `it can't be read: ${message}`,
    };
  }
}

class Verifier {
  entries = 0;
  readonly #walk: VerificationInput;
  readonly #slices: TimeSlices;
  /** The last verified entry. */
  #at: ChainPosition | undefined;
  /** Seq of the last entry that a signature covers. */
  #signed = 0;
  /** The last seq that the log records as dropped by retention. */
  #dropped = 0;
  #droppedForSize = 0;
  #pruned: Pruned | undefined;
  /** Seq before the first existing entry. */
  #began = 0;
  /** Seq of the last checkpoint in the file without a row in the table; retention deletes rows from the oldest on. */
  #rowMissing: number | undefined;

  constructor(walk: VerificationInput) {
    this.#walk = walk;
    this.#slices = new TimeSlices(walk.powers);
  }

  /** Seq of the entry to verify next. */
  get next(): number {
    return (this.#at?.seq ?? 0) + 1;
  }

  get dropped(): Pick<Verification, 'droppedBefore' | 'droppedForSize' | 'pruned'> {
    return {
      ...(this.#began > 0 && { droppedBefore: this.#began + 1 }),
      ...(this.#droppedForSize > 0 && { droppedForSize: this.#droppedForSize }),
      pruned: this.#pruned,
    };
  }

  async run(): Promise<void> {
    const { keyPath, head, checkpointBytes } = this.#walk;
    const key = readKey(keyPath);
    if (!key) throw new ChainBroken(undefined, `the signing key is missing (${keyPath})`);
    if (checkpointBytes === undefined) throw new ChainBroken(undefined, 'the file of checkpoints is missing');
    // Everything that may grow meanwhile is read before the first await.
    const end = this.#checkEnd(key);
    const checkpoints = this.#checkpoints(key);
    let checkpoint = await nextOf(checkpoints);
    if (!checkpoint) throw new ChainBroken(undefined, 'the file of checkpoints is empty');
    for await (const row of this.#rows()) {
      if (!this.#at) {
        this.#at = this.#beginAt(row);
        while (checkpoint && checkpoint.seq < this.#at.seq) checkpoint = await nextOf(checkpoints);
        checkpoint = await this.#pass(checkpoint, checkpoints);
      }
      this.#checkRow(row);
      checkpoint = await this.#pass(checkpoint, checkpoints);
    }
    if (!this.#at) {
      this.#at = { seq: 0, hash: GENESIS };
      checkpoint = await this.#pass(checkpoint, checkpoints);
    }
    if (checkpoint)
      throw new ChainBroken(this.next, `the log was signed up to entry ${checkpoint.seq} and ends before`);
    if (this.#at.seq !== head.seq || this.#at.hash !== head.hash)
      throw new ChainBroken(this.next, `the log went up to entry ${head.seq} and ends before, or ends in another`);
    if (end) throw end;
    if (this.#began > this.#dropped)
      throw new ChainBroken(1, `entries up to ${this.#began} are missing, and no retention says that it dropped them`);
    // Names no entry, since the file's checkpoints prove the entries.
    if (this.#rowMissing !== undefined && this.#rowMissing >= this.#dropped)
      throw new ChainBroken(undefined, `the checkpoint of entry ${this.#rowMissing} is missing in the database`);
  }

  /** The position before the first existing entry. Retention dropped the entries before it, which a later entry must confirm. */
  #beginAt({ seq, previousHash }: AuditRow): ChainPosition {
    const at = { seq: (seq as number) - 1, hash: previousHash as string };
    if (at.seq < 0) throw new ChainBroken(at.seq + 1, 'entries are counted from 1');
    if (at.seq === 0 && at.hash !== GENESIS) throw new ChainBroken(1, 'the first entry follows something');
    this.#began = at.seq;
    return at;
  }

  #checkRow(row: AuditRow): void {
    const at = this.#at as ChainPosition;
    const seq = row.seq as number;
    if (seq !== at.seq + 1) throw new ChainBroken(at.seq + 1, `entry ${at.seq + 1} is missing`);
    if (row.previousHash !== at.hash) throw new ChainBroken(seq, `entry ${seq} does not follow the one before it`);
    if (hashOf(row) !== row.hash || !isWellFormed(row)) throw new ChainBroken(seq, `entry ${seq} was changed`);
    this.#at = { seq, hash: row.hash as string };
    this.entries += 1;
    if (row.kind === 'policy') this.#checkLogEvent(row);
  }

  /** Evaluates entries about the log itself. */
  #checkLogEvent({ seq, at, detail }: AuditRow): void {
    const said = JSON.parse((detail as string | null) ?? '{}') as LogDetail;
    const dropped = said.log?.dropped;
    if (dropped !== undefined) this.#dropped = Math.max(this.#dropped, dropped.upTo);
    if (dropped?.because === 'size') this.#droppedForSize = Math.max(this.#droppedForSize, dropped.upTo);
    if (dropped?.because === 'operator')
      this.#pruned = { entry: seq as number, at: at as string, by: dropped.by ?? 'an operator', upTo: dropped.upTo };
    if (said.log?.broken !== undefined)
      throw new ChainBroken(seq as number, `when the daemon started before entry ${seq}: ${said.log.broken}`);
  }

  /** Compares `checkpoint` with the current position if it belongs there; returns the checkpoint to compare next. */
  async #pass(
    checkpoint: Checkpoint | undefined,
    checkpoints: AsyncGenerator<Checkpoint>,
  ): Promise<Checkpoint | undefined> {
    const { seq, hash } = this.#at as ChainPosition;
    if (checkpoint?.seq !== seq) return checkpoint;
    if (checkpoint.hash !== hash) {
      const from = Math.max(this.#signed + 1, 1);
      throw new ChainBroken(from, `entries ${from} to ${seq} are not those that were signed at ${checkpoint.at}`);
    }
    this.#signed = seq;
    return nextOf(checkpoints);
  }

  /** The problem with the end of the log, reported only if no earlier one is found. */
  #checkEnd(key: SigningKey): ChainBroken | undefined {
    const { head } = this.#walk;
    const end = this.#readEnd();
    if (end instanceof ChainBroken) return end;
    if (end && (end.last ?? 0) > head.seq)
      return new ChainBroken(head.seq + 1, `entry ${head.seq + 1} was not written by the daemon`);
    if (head.seq === 0) return undefined;
    if (end?.seq !== head.seq || end.hash !== head.hash || !key.isSealed(head, end.seal))
      return new ChainBroken(head.seq, 'the seal of the end of the log is missing or not ours');
    return undefined;
  }

  #readEnd(): ReturnType<typeof readEnd> | ChainBroken {
    try {
      return readEnd(this.#walk.database);
    } catch (error) {
      return new ChainBroken(undefined, `the end of the log can't be read: ${(error as Error).message}`);
    }
  }

  async *#rows(): AsyncGenerator<AuditRow> {
    const { database, head } = this.#walk;
    const page = database.prepare('SELECT * FROM audit WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?');
    for (let after = Number.MIN_SAFE_INTEGER; ; ) {
      const rows = page.all(after, head.seq, PAGE) as unknown as AuditRow[];
      yield* rows;
      if (rows.length < PAGE) return;
      after = rows.at(-1)?.seq as number;
      await this.#slices.pause();
    }
  }

  /**
   * The file's checkpoints, each signed by us and later than the previous one. Each must be in the table, and the table must contain no
   * others.
   */
  async *#checkpoints(key: SigningKey): AsyncGenerator<Checkpoint> {
    const { checkpointsPath, checkpointBytes, database, lastInTable } = this.#walk;
    const table = tableOf(database, lastInTable);
    let inTable = table.next().value;
    let before = -1;
    for await (const { line } of linesOf(checkpointsPath, checkpointBytes ?? 0)) {
      const checkpoint = parseCheckpoint(line);
      if (!checkpoint || !key.isSigned(checkpoint))
        throw new ChainBroken(this.#signed + 1, `a checkpoint was not signed with our key: ${line.slice(0, 80)}`);
      if (checkpoint.seq <= before)
        throw new ChainBroken(
          checkpoint.seq + 1,
          `the log was once signed up to entry ${before} and then from ${checkpoint.seq}`,
        );
      if (inTable && inTable.seq < checkpoint.seq) break;
      if (inTable?.seq === checkpoint.seq) {
        const { hash, at, signature } = checkpoint;
        if (inTable.hash !== hash || inTable.at !== at || inTable.signature !== signature)
          throw new ChainBroken(
            this.#signed + 1,
            `the checkpoint of entry ${checkpoint.seq} was changed in the database`,
          );
        inTable = table.next().value;
      } else this.#rowMissing = checkpoint.seq;
      before = checkpoint.seq;
      yield checkpoint;
      await this.#slices.pause();
    }
    if (inTable)
      throw new ChainBroken(
        this.#signed + 1,
        `the checkpoint of entry ${inTable.seq} is missing in ${checkpointsPath}`,
      );
  }
}

/** `detail` of a policy entry that the log writes about itself. */
export interface LogDetail {
  readonly log?: {
    /** All entries up to a position were dropped. */
    readonly dropped?: AuditCut;
    /** The problem found when the log was opened. */
    readonly broken?: string;
    /** Number of entries that were given up because they could not be written. */
    readonly lost?: number;
  };
}

/** The recorded end of the log and the seq of its last entry. Throws SQLite errors. */
export function readEnd(
  database: DatabaseSync,
): { seq: number | null; hash: string; seal: string; last: number | null } | undefined {
  const row = database
    .prepare('SELECT seq, hash, seal, last FROM (SELECT max(seq) AS last FROM audit) LEFT JOIN head ON id = 1')
    .get();
  return row as { seq: number | null; hash: string; seal: string; last: number | null } | undefined;
}

function* tableOf(database: DatabaseSync, end: number): Generator<Checkpoint, undefined> {
  const page = database.prepare('SELECT * FROM checkpoints WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?');
  for (let after = Number.MIN_SAFE_INTEGER; ; ) {
    const rows = page.all(after, end, PAGE) as unknown as Checkpoint[];
    yield* rows;
    if (rows.length < PAGE) return undefined;
    after = rows.at(-1)?.seq as number;
  }
}

async function nextOf<T>(items: AsyncGenerator<T>): Promise<T | undefined> {
  const { done, value } = await items.next();
  return done ? undefined : value;
}
