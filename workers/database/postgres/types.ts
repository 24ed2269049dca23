/** Names of the types of columns. */
import type { Column } from '../../../src/tools/context/databases.ts';
import type { Field } from './exchange.ts';

/** Names of common types by their identifiers, which never change. */
const KNOWN: ReadonlyMap<number, string> = new Map([
  [16, 'boolean'],
  [17, 'bytea'],
  [19, 'name'],
  [20, 'bigint'],
  [21, 'smallint'],
  [23, 'integer'],
  [25, 'text'],
  [26, 'oid'],
  [114, 'json'],
  [700, 'real'],
  [701, 'double precision'],
  [1007, 'integer[]'],
  [1009, 'text[]'],
  [1016, 'bigint[]'],
  [1042, 'character'],
  [1043, 'character varying'],
  [1082, 'date'],
  [1083, 'time without time zone'],
  [1114, 'timestamp without time zone'],
  [1184, 'timestamp with time zone'],
  [1186, 'interval'],
  [1231, 'numeric[]'],
  [1700, 'numeric'],
  [2950, 'uuid'],
  [3802, 'jsonb'],
]);

/** Names that a session has learned beside those. */
export class TypeNames {
  readonly #learned = new Map<number, string>();

  /** Types whose names are to be asked for. */
  unknownIn(fields: readonly Field[]): number[] {
    const ids = new Set(fields.map((it) => it.dataTypeID));
    return [...ids].filter((it) => !KNOWN.has(it) && !this.#learned.has(it));
  }

  learn(ids: readonly number[], names: readonly string[]): void {
    for (const [at, id] of ids.entries()) this.#learned.set(id, names[at] ?? UNKNOWN);
  }

  columnsOf(fields: readonly Field[]): Column[] {
    return fields.map(({ name, dataTypeID: id }) => {
      return { name, type: KNOWN.get(id) ?? this.#learned.get(id) ?? UNKNOWN };
    });
  }
}

const UNKNOWN = 'unknown';
