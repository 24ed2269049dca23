/** Runs statements by PostgreSQL's extended protocol, which takes one statement a message. */
import pg from 'pg';
import { serialize } from 'pg-protocol';
import type { DatabaseQuery } from '../../../src/tools/context/databases.ts';
import type { TableWriter } from '../../sqlite/table-writer.ts';
import { toCell } from './cells.ts';
import type { Line } from './login.ts';
import { type Phase, toRefused } from './refusals.ts';

export type Values = readonly (string | null)[];

/** The connection ended, or had to be ended. */
export class ConnectionLost extends Error {}

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

export type Field = Pick<pg.FieldDef, 'name' | 'dataTypeID'>;

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
  { client, stream }: Line,
  statements: readonly Buffer[],
  { phase, statementsBefore = 0, bytesMax, writer }: RowsOf,
): Promise<Taken> {
  let fields: readonly Field[] = [];
  let [tag, ended] = ['', 0];
  const notices: string[] = [];
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const unexpected = () => stream.destroy();
  const notice = ({ message = '' }: { message?: string | undefined }) => {
    if (notices.length < NOTICES_MAX) notices.push(message.slice(0, NOTICE_CHARS_MAX).toWellFormed());
  };
  stream.allow(bytesMax);
  client.on('notice', notice);
  client.query({
    submit: (wire: pg.Connection) => void wire.stream.write(Buffer.concat([...statements, serialize.sync()])),
    handleRowDescription: (message: { fields: Field[] }) => {
      if (ended === statementsBefore) ({ fields } = message);
    },
    handleDataRow: ({ length, fields: cells }: { length: number; fields: (string | null)[] }) => {
      if (ended === statementsBefore)
        writer.add(length, () => cells.map((it, at) => toCell(it, fields[at]?.dataTypeID ?? 0)));
    },
    handleCommandComplete: ({ text }: { text: string }) => {
      ended += 1;
      tag = text;
    },
    handlePortalSuspended: () => {},
    handleEmptyQuery: () => {},
    handleCopyInResponse: unexpected,
    handleCopyData: unexpected,
    handleReadyForQuery: resolve,
    handleError: reject,
  });
  try {
    await promise;
  } catch (error) {
    if (!stream.isOver) {
      if (error instanceof pg.DatabaseError) throw toRefused(error, ended < statementsBefore ? 'plan' : phase);
      throw new ConnectionLost((error as Error).message);
    }
    writer.cut('bytes');
  } finally {
    client.off('notice', notice);
  }
  return { fields, tag, notices, isCut: stream.isOver };
}

/** Values as text: the server knows their types from the statement. */
export function toValues(params: DatabaseQuery['params']): Values {
  return Object.values(params).map((it) => (it === null ? null : String(it)));
}
