/** Output of the CLI: results on stdout, everything else on stderr, exit codes of docs/protocol.md. */

import type { ToolResult } from '../base/call.ts';
import { escapeUnseen, visible } from '../base/text/shown-text.ts';
import { describeWithheld } from '../wire/protocol/result-text.ts';

export const EXIT = { OK: 0, FAILED: 1, USAGE: 2, UNREACHABLE: 3, DENIED: 4, LIMITED: 5, INTERRUPTED: 130 } as const;

/** The name of an exit code in JSON. */
export const codeNameOf = (exitCode: number): string =>
  Object.entries(EXIT).find(([, code]) => code === exitCode)?.[0] ?? 'FAILED';

/** Ends the command with a message on stderr and an exit code. */
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

const DENIALS_SHOWN = 5;

/**
 * Prints a result for people: its text if it has one, otherwise JSON; facts about the call go to stderr. `isShown` means that the command's
 * output was already shown, `isQuiet` that nothing is said of a command that ended with 0.
 */
export function printResult(result: ToolResult, { isShown = false, isQuiet = false } = {}): void {
  const { metadata, callId } = result;
  const facts = [
    metadata.tier,
    metadata.hostPid && `host ${metadata.hostPid}`,
    `${metadata.durationMs} ms`,
    metadata.resources.verdict,
  ];
  if (isQuiet && result.success && exitCodeOf(result) === EXIT.OK) {
    if (!isShown) printData(result.data as Record<string, unknown>, metadata);
    return;
  }
  for (const { target, reason, suggestion } of metadata.denied?.slice(0, DENIALS_SHOWN) ?? [])
    say(harmless(`refused: ${target}${reason ? `, ${reason}` : ''}. ${suggestion ?? ''}`));
  if (metadata.withheld) say(harmless(`the sandbox kept from the call ${describeWithheld(metadata.withheld)}`));
  const missing = (metadata.undoMissing ?? []).map(({ path, why }) => `${path} (${why})`);
  if (missing.length > 0) say(harmless(`undo will not bring back ${listed(missing)}`));
  for (const warning of metadata.warnings ?? []) say(harmless(warning));
  if (!result.success) {
    const { code, message, suggestion } = result.error;
    return say(
      `${code}: ${harmless(message)}${suggestion ? `\n  ${harmless(suggestion)}` : ''}\n  call ${harmless(callId)}`,
    );
  }
  const data = result.data as Record<string, unknown>;
  if (!isShown) printData(data, metadata);
  sayMissing(data);
  if (data.truncated === true) say('the result is truncated; `ringfence tools NAME` tells how to get the rest');
  if (isQuiet) return;
  const exitCode = typeof data.exitCode === 'number' ? `exit code ${data.exitCode}` : undefined;
  say([...facts, exitCode, `call ${harmless(callId)}`].filter(Boolean).join(' · '));
}

function listed(names: readonly string[]): string {
  const more = names.length - NAMES_SHOWN;
  return `${names.slice(0, NAMES_SHOWN).join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}

const NAMES_SHOWN = 3;

/** What brings a program that the command did not find. */
function sayMissing({ missing }: Record<string, unknown>): void {
  const { hint } = (missing ?? {}) as { hint?: unknown };
  if (typeof hint === 'string') say(harmless(hint));
}

function printData(data: Record<string, unknown>, { truncated }: ToolResult['metadata']): void {
  const text = data.content ?? data.stdout ?? data.diff ?? data.tree;
  // A text with a gap does not go to standard output, since a reader of the pipe would take it for complete.
  const hasHole = typeof data.stdout === 'string' && truncated !== undefined;
  if (typeof text !== 'string') printJson(data);
  else if (hasHole) {
    process.stderr.write(harmless(text.endsWith('\n') ? text : `${text}\n`));
    say(`only the start and the end of ${truncated.bytesTotal} bytes were kept; both are shown on standard error`);
  } else if (process.stdout.isTTY) print(harmless(text));
  else process.stdout.write(text); // Unchanged, for the reader of the pipe.
  if (typeof data.stderr === 'string' && data.stderr !== '') process.stderr.write(harmless(data.stderr));
}
