/** `ringfence query CONNECTION SQL`: runs a statement as a call, and prints its rows. */
import type { ToolResult } from '../../base/call.ts';
import { jsonOr } from '../../base/text/json.ts';
import { assertTimeout, type CallFlags, runCall } from '../call/call.ts';
import { printResult } from '../call/printed-result.ts';
import { type CliCaller, connect } from '../connect.ts';
import { harmless, print, say, UsageError } from '../output.ts';
import { type ShownTable, toCsv, toLines } from './table.ts';

export interface QueryFlags extends Pick<CallFlags, 'json' | 'timeout'> {
  readonly csv?: boolean;
  readonly params?: string;
  readonly maxRows?: string;
}

interface QueryData extends ShownTable {
  readonly truncatedBy?: 'rows' | 'bytes' | 'cells';
  readonly changes?: number;
  readonly durationMs: number;
}

/** Returns the exit code. */
export async function query(name: string, sql: string, flags: QueryFlags, caller: CliCaller): Promise<number> {
  const input = {
    connection: name,
    sql,
    ...(flags.params !== undefined && { params: toParams(flags.params) }),
    ...(flags.maxRows !== undefined && { maxRows: Number(flags.maxRows) }),
  };
  assertTimeout(flags);
  await using client = await connect(caller);
  const show = (result: ToolResult) => showRows(result, flags.csv === true);
  return await runCall(client, { tool: 'database_query', input }, { flags, caller, show });
}

/** Prints the rows of a result on standard output, and the rest on standard error. */
export function showRows(result: ToolResult, isCsv: boolean): void {
  if (!result.success) return printResult(result);
  const data = result.data as QueryData;
  const { columns, rows, truncatedBy, changes, durationMs } = data;
  if (columns.length > 0) {
    const csv = isCsv ? toCsv(data) : '';
    if (isCsv && process.stdout.isTTY) print(harmless(csv));
    else if (isCsv)
      process.stdout.write(csv); // Unchanged, for the reader of the pipe.
    else print(toLines(data).join('\n'));
  }
  for (const warning of result.metadata.warnings ?? []) say(harmless(warning));
  if (truncatedBy === 'rows') say(`only the first ${inRows(rows.length)} of the result; ask for more with --max-rows`);
  if (truncatedBy === 'bytes' || truncatedBy === 'cells')
    say(`only ${inRows(rows.length)} fit in a result; select fewer columns or rows`);
  const counted = columns.length > 0 || changes === undefined ? inRows(rows.length) : `${inRows(changes)} changed`;
  const undo = changes ? ` · undo: ringfence undo ${harmless(result.callId)}` : '';
  say(`${counted} · ${durationMs} ms${undo}`);
}

const inRows = (count: number): string => (count === 1 ? '1 row' : `${count} rows`);

/** Throws UsageError. */
function toParams(text: string): unknown {
  const params = jsonOr(text, undefined);
  if (params !== undefined) return params;
  throw new UsageError(`--params takes a JSON array or object, such as '[1, "Ada"]', not ${harmless(text)}`);
}
