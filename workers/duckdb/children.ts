/** The child processes that run statements by DuckDB, an optional package. */
import { createRequire } from 'node:module';
import { ToolError } from '../../src/base/errors.ts';
import type { Limits } from '../../src/base/limits.ts';
import type { Powers } from '../../src/base/powers.ts';
import { entryOf, StatementChildren } from '../sqlite-child.ts';
import type { DuckDbRequests } from './messages.ts';

export class DuckDbChildren extends StatementChildren<DuckDbRequests> {
  readonly #from: string;

  /** `from`: the file whose packages are looked at. */
  constructor(limits: Limits, powers: Powers, from: string = import.meta.url) {
    const memoryBytes = limits.databaseMemoryBytes + limits.databaseDuckdbBytes;
    // A result that was cut keeps its memory until a collection of garbage, which DuckDB's memory does not bring about.
    super({ entry: entryOf('duckdb/process'), memoryBytes, isKept: false }, limits, powers);
    this.#from = from;
  }

  /** Throws UNSUPPORTED without the package. */
  assertInstalled(): void {
    try {
      createRequire(this.#from).resolve('@duckdb/node-api');
    } catch {
      // MODULE_NOT_FOUND
      throw new ToolError('UNSUPPORTED', 'the connection needs DuckDB, which is not installed', {
        suggestion: 'Ask the person to install it beside Ringfence: npm i @duckdb/node-api@1.5.4-r.1',
      });
    }
  }
}
