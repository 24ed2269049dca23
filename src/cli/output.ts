/** Output of the CLI: results on stdout, everything else on stderr, exit codes of docs/command-line.md. */

import type { ToolResult } from '../base/call.ts';
import { escapeUnseen, visible } from '../base/text/shown-text.ts';

export { OperatorError, UsageError } from '../base/errors.ts';

export const EXIT = { OK: 0, FAILED: 1, USAGE: 2, UNREACHABLE: 3, DENIED: 4, LIMITED: 5, INTERRUPTED: 130 } as const;

/** The flag of every verb: print JSON on standard output and nothing else there. */
export interface JsonFlag {
  readonly json?: boolean | undefined;
}

/** The name of an exit code in JSON. */
export const codeNameOf = (exitCode: number): string =>
  Object.entries(EXIT).find(([, code]) => code === exitCode)?.[0] ?? 'FAILED';

/** Ends the command with a message on stderr and another exit code than OperatorError (1) and UsageError (2). */
export class CliError extends Error {
  readonly exitCode: number;
  constructor(exitCode: number, message: string) {
    super(message);
    this.exitCode = exitCode;
  }
}

export const say = (text: string): void => void process.stderr.write(`ringfence: ${text}\n`);
export const print = (text: string): void =>
  void process.stdout.write(text.endsWith('\n') || text === '' ? text : `${text}\n`);
/** JSON with terminal control characters and invisible characters escaped, which JSON.stringify leaves as they are. */
export const toJson = (value: unknown, indent?: number): string => escapeUnseen(JSON.stringify(value, null, indent));
export const printJson = (value: unknown): void => print(toJson(value, process.stdout.isTTY ? 2 : undefined));

/** Prints rows, one a line, or says that there are none. Gives the exit code. */
export function printRows<T>(rows: readonly T[], json: boolean | undefined, none: string, toLine: (row: T) => string) {
  if (json) printJson(rows);
  else if (rows.length === 0) say(none);
  else for (const it of rows) print(toLine(it));
  return EXIT.OK;
}

/** Makes text from outside safe to print, so that a file name can neither control the terminal nor hide anything. */
export const harmless = visible;

/**
 * The exit code for a single call. A command that ran to its end determines it, with 128 + n if signal n ended it; a failed call has one of
 * EXIT. Standard error, and `success` with `--json`, tell the two apart.
 */
export function exitCodeOf(result: ToolResult): number {
  if (result.success) return commandExitCode(result) ?? EXIT.OK;
  const { category, code, layer } = result.error;
  if (code === 'APPROVAL_TIMEOUT') return EXIT.LIMITED;
  if (category === 'PERMISSION') return EXIT.DENIED;
  if (category === 'TIMEOUT' || layer === 'limit') return EXIT.LIMITED;
  return category === 'CANCELLED' ? EXIT.INTERRUPTED : EXIT.FAILED;
}

/** The exit code of the command that a call ran, if it ran one to its end; data of providers does not count. */
function commandExitCode({ data, metadata }: ToolResult & { success: true }): number | undefined {
  const { exitCode } = (data ?? {}) as { exitCode?: unknown };
  const isExitCode = Number.isInteger(exitCode) && (exitCode as number) >= 0 && (exitCode as number) <= 255;
  return metadata.tier === 'execute' && isExitCode ? (exitCode as number) : undefined;
}
