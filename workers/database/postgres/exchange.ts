/** Runs statements by PostgreSQL's extended protocol, which takes one statement a message. */
import { serialize } from 'pg-protocol';
import type { DatabaseQuery } from '../../../src/tools/context/databases.ts';
import type { TableWriter } from '../table-writer.ts';
import { toCell } from './cells.ts';
import type { Field, ServerMessage } from './messages.ts';
import { type Phase, toRefused } from './refusals.ts';
import { type PostgresWire, TooManyBytes } from './wire.ts';

export type Values = readonly (string | null)[];

/** Messages that run one statement whose rows are not looked at; several of them are sent at once. */
export const command = (text: string, values: Values = []): Buffer[] => [
  serialize.parse({ text }),
  serialize.bind({ values: [...values] }),
  serialize.execute({}),
];

/** Messages that run one statement, and have the server describe its columns. */
export const statement = (text: string, values: Values = []): Buffer[] => [
  serialize.parse({ text }),
  serialize.bind({ values: [...values] }),
  serialize.describe({ type: 'P' }),
  serialize.execute({}),
];

export interface RowsOf {
  readonly phase: Phase;
  /** Statements that are sent before the one whose rows are wanted. */
  readonly statementsBefore?: number;
  readonly bytesMax: number;
  readonly writer: TableWriter;
}

export interface Taken {
  readonly fields: readonly Field[];
  /** What the server tells at the end of the last statement, such as `UPDATE 3`. */
  readonly tag: string;
  readonly notices: string[];
  /** Whether the server sent more than `bytesMax`; the connection is gone then. */
  readonly isCut: boolean;
}

const NOTICES_MAX = 20;
const NOTICE_CHARS_MAX = 300;

/** Runs statements, and puts the rows of the last one into the writer. Throws Refused, ConnectionLost. */
export async function runStatements(
  wire: PostgresWire,
  statements: readonly Buffer[],
  { phase, statementsBefore = 0, bytesMax, writer }: RowsOf,
): Promise<Taken> {
  let fields: readonly Field[] = [];
  let [tag, ended] = ['', 0];
  const notices: string[] = [];
  const take = (message: ServerMessage) => {
    const isWanted = ended === statementsBefore;
    if (message.kind === 'complete') {
      ended += 1;
      ({ tag } = message);
    } else if (message.kind === 'notice' && notices.length < NOTICES_MAX)
      notices.push(message.told.message.slice(0, NOTICE_CHARS_MAX).toWellFormed());
    else if (isWanted && message.kind === 'fields') ({ fields } = message);
    else if (isWanted && message.kind === 'row') {
      const { bytes, cells } = message;
      writer.add(bytes, () => cells.map((it, at) => toCell(it, fields[at]?.typeId ?? 0)));
    }
  };
  try {
    const error = await wire.exchange([...statements, serialize.sync()], { bytesMax, take });
    if (error) throw toRefused(error, ended < statementsBefore ? 'plan' : phase);
  } catch (error) {
    if (!(error instanceof TooManyBytes)) throw error;
    writer.cut('bytes');
    return { fields, tag, notices, isCut: true };
  }
  return { fields, tag, notices, isCut: false };
}

/** Values as text: the server knows their types from the statement. */
export function toValues(params: DatabaseQuery['params']): Values {
  return Object.values(params).map((it) => (it === null ? null : String(it)));
}
