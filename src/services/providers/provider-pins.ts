/**
 * Accepted tools of external providers with the digest of their whole definition; a later definition under the same name is compared with
 * it.
 */
import type { DatabaseSync } from 'node:sqlite';
import type { Powers } from '../../base/powers.ts';
import { parseJson } from '../../base/text/json.ts';
import { atomically, openDatabase, type Prepared, prepared, storing } from '../../store/database.ts';

const attempt = storing('what was accepted of providers');

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS pins (provider TEXT NOT NULL, tool TEXT NOT NULL, name TEXT NOT NULL, digest TEXT NOT NULL,
    definition TEXT NOT NULL, accepted_ms INTEGER NOT NULL, accepted_by TEXT NOT NULL,
    PRIMARY KEY (provider, tool), UNIQUE (provider, name)) STRICT;
  CREATE TABLE IF NOT EXISTS seen (provider TEXT PRIMARY KEY) STRICT;`;

const STATEMENTS = {
  selectPins: 'SELECT tool, name, digest, definition FROM pins WHERE provider = ? ORDER BY tool',
  insertPin: 'INSERT OR REPLACE INTO pins VALUES (?, ?, ?, ?, ?, ?, ?)',
  isSeen: 'SELECT 1 FROM seen WHERE provider = ?',
  see: 'INSERT OR IGNORE INTO seen VALUES (?)',
};

/** A tool in its accepted form. */
export interface Pin {
  /** The server's name of the tool. */
  readonly tool: string;
  /** The callers' name of the tool; it never changes, whatever other tools appear. */
  readonly name: string;
  readonly digest: string;
  readonly definition: unknown;
}

export class ProviderPins implements Disposable {
  readonly #database: DatabaseSync;
  readonly #powers: Powers;
  readonly #statements: Prepared<typeof STATEMENTS>;

  /** Opens the file at `path`, which only this process uses. */
  constructor(path: string, powers: Powers) {
    this.#powers = powers;
    this.#database = openDatabase(path, SCHEMA);
    this.#statements = prepared(this.#database, STATEMENTS);
  }

  /** The accepted tools of a provider. Throws STORE_FAILED. */
  pinsOf(provider: string): Pin[] {
    return attempt(() =>
      this.#statements.selectPins.all(provider).map(({ tool, name, digest, definition }) => ({
        tool: tool as string,
        name: name as string,
        digest: digest as string,
        definition: parseJson(definition as string) as unknown,
      })),
    );
  }

  /** Whether the provider's tools were listed before; tools that appear later need a person's review first. Throws STORE_FAILED. */
  isKnown(provider: string): boolean {
    return attempt(() => this.#statements.isSeen.get(provider)) !== undefined;
  }

  /** Stores accepted tools in one transaction. Throws STORE_FAILED. */
  accept(provider: string, pins: readonly Pin[], by: string): void {
    const { see, insertPin } = this.#statements;
    const store = () => {
      see.run(provider);
      for (const { tool, name, digest, definition } of pins)
        insertPin.run(provider, tool, name, digest, JSON.stringify(definition), this.#powers.now(), by);
    };
    attempt(() => atomically(this.#database, store));
  }

  [Symbol.dispose](): void {
    this.#database.close();
  }
}
