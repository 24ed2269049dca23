/** Reads the audit log of a daemon that is not running; writes, repairs and drops nothing. */
import { existsSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { ToolError } from '../../base/errors.ts';
import type { Limits } from '../../base/limits.ts';
import type { Powers } from '../../base/powers.ts';
import { type ChainPosition, GENESIS, readKey } from './chain.ts';
import { linesOf, parseCheckpoint, problemOfTable } from './checkpoints.ts';
import { type AuditPage, type AuditPageRequest, AuditQueries } from './query.ts';
import { type Verification, verifyLog } from './verify.ts';

export class AuditReader implements Disposable {
  readonly #database: DatabaseSync;
  readonly #path: string;
  readonly #powers: Powers;
  readonly #queries: AuditQueries;

  /** Throws ToolError STORE_FAILED if there is no log at `path` or it can't be read. */
  constructor(path: string, limits: Limits, powers: Powers) {
    if (!existsSync(path)) throw new ToolError('STORE_FAILED', `there is no audit log at ${path}`);
    try {
      this.#database = new DatabaseSync(path, { readOnly: true, timeout: 1000, defensive: true });
      this.#queries = new AuditQueries(this.#database, limits, powers);
    } catch (cause) {
      throw new ToolError('STORE_FAILED', `${path} can not be read: ${(cause as Error).message}`, { cause });
    }
    this.#path = path;
    this.#powers = powers;
  }

  /** Like AuditLog.query; an intent without an outcome will never get one. */
  query(request: AuditPageRequest): Promise<AuditPage> {
    const { seq: last } = this.#last;
    const { first } = this.#database.prepare('SELECT min(seq) AS first FROM audit').get() as { first: number | null };
    return this.#queries.page(request, { first: first ?? 1, last, firstOfRun: last + 1 });
  }

  /** Like AuditLog.verify. Without the writer's memory, the end of the log is what is on disk, as its seal proves it. */
  async verify(): Promise<Verification> {
    const checkpointsPath = this.#siblingFile('checkpoints');
    const keyPath = this.#siblingFile('key');
    const checkpointBytes = statSync(checkpointsPath, { throwIfNoEntry: false })?.size;
    const { inTable } = this.#database.prepare('SELECT coalesce(max(seq), 0) AS inTable FROM checkpoints').get() as {
      inTable: number;
    };
    let inFile = 0;
    for await (const { line } of linesOf(checkpointsPath, checkpointBytes ?? 0))
      inFile = parseCheckpoint(line)?.seq ?? inFile;
    const key = readKey(keyPath);
    const reason = key && problemOfTable({ database: this.#database, key, inFile, inTable });
    if (reason !== undefined) return { ok: false, entries: 0, reason };
    const files = { keyPath, checkpointsPath, checkpointBytes };
    const { head, database, powers } = { head: this.#last, database: this.#database, powers: this.#powers };
    return verifyLog({ ...files, database, head, powers, lastInTable: inTable });
  }

  #siblingFile(ending: string): string {
    return join(dirname(this.#path), `${basename(this.#path, '.db')}.${ending}`);
  }

  [Symbol.dispose](): void {
    this.#database.close();
  }

  get #last(): ChainPosition {
    const last = this.#database.prepare('SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1').get();
    return (last as ChainPosition | undefined) ?? { seq: 0, hash: GENESIS };
  }
}
