/** Prints the result of a call: for people, or for the program behind a pipe. */
import { styleText } from 'node:util';
import type { ToolResult } from '../../base/call.ts';
import { showLine } from '../../base/text/shown-text.ts';
import { modelTexts } from '../../wire/protocol/model-text.ts';
import { describeWithheld } from '../../wire/protocol/result-text.ts';
import { shortId } from '../ids.ts';
import { EXIT, exitCodeOf, harmless, print, printJson, say } from '../output.ts';
import { took } from '../screen/table.ts';

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
    if (!isShown) printData(result.data as Record<string, unknown>, metadata, result.tool);
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
    if (process.stderr.isTTY) return void process.stderr.write(refusalLines(result));
    return say(
      `${code}: ${harmless(message)}${suggestion ? `\n  ${harmless(suggestion)}` : ''}\n  call ${harmless(callId)}`,
    );
  }
  const data = result.data as Record<string, unknown>;
  if (!isShown) printData(data, metadata, result.tool);
  sayMissing(data);
  if (data.truncated === true) say('the result is truncated; `ringfence tools NAME` tells how to get the rest');
  if (isQuiet) return;
  if (process.stderr.isTTY) return void process.stderr.write(endLine(result));
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

/** Why a call failed, for a person: what it was, why, and the next step. */
function refusalLines({ callId, error }: ToolResult & { success: false }): string {
  const paint = (style: 'bold' | 'red' | 'dim', text: string) => styleText(style, text, { stream: process.stderr });
  const isRefused = error.category === 'PERMISSION';
  const word = isRefused ? 'refused' : 'failed';
  return [
    `  ${paint(isRefused ? 'bold' : 'red', word)}  ${harmless(error.code)}: ${harmless(error.message)}`,
    ...(error.suggestion === undefined ? [] : [`  ${harmless(error.suggestion)}`]),
    `  ${paint('dim', `call ${shortId(callId)}`)}`,
    '',
  ].join('\n');
}

/** How a call ended, for a person: its exit code, what it used, what undo gives back. */
function endLine({ callId, data, metadata }: ToolResult & { success: true }): string {
  const { durationMs, queuedMs, resources, filesChanged = [], undo } = metadata;
  const { peakBytes, processes, verdict } = resources;
  const { exitCode } = (data ?? {}) as { exitCode?: unknown };
  const changed = filesChanged.length === 1 ? '1 file' : `${filesChanged.length} files`;
  const parts = [
    ...(typeof exitCode === 'number' ? [`exit ${exitCode}`] : []),
    took(durationMs),
    ...(queuedMs > 1000 ? [`queued ${took(queuedMs)}`] : []),
    ...(peakBytes ? [`${Math.ceil(peakBytes / 1024 / 1024)} MB`] : []),
    ...(processes ? [`${processes} ${processes === 1 ? 'process' : 'processes'}`] : []),
    ...(verdict === 'ok' ? [] : [verdict]),
    ...(filesChanged.length > 0 ? [`${changed} changed, undo: ${undo}`] : []),
    `call ${shortId(callId)}`,
  ];
  return `  ${styleText('dim', showLine(parts.join(' · ')), { stream: process.stderr })}\n`;
}

/** What models get of a result: short, in the forms of `ls`, `rg` and git; with a diff in colour. */
function peopleText(tool: string, data: Record<string, unknown>): string {
  const text = harmless(modelTexts(tool, data).join('\n'));
  if (typeof data.diff !== 'string') return text;
  const paint = (line: string) => styleText(line[0] === '+' ? 'green' : 'red', line, { stream: process.stdout });
  return text.replaceAll(/^[+-].*$/gm, paint);
}

function printData(data: Record<string, unknown>, { truncated }: ToolResult['metadata'], tool: string): void {
  const text = data.content ?? data.stdout ?? data.diff ?? data.tree;
  // A text with a gap does not go to standard output, since a reader of the pipe would take it for complete.
  const hasHole = typeof data.stdout === 'string' && truncated !== undefined;
  const isPersons = process.stdout.isTTY && !hasHole && typeof data.stdout !== 'string';
  if (isPersons) print(peopleText(tool, data));
  else if (typeof text !== 'string') printJson(data);
  else if (hasHole) {
    process.stderr.write(harmless(text.endsWith('\n') ? text : `${text}\n`));
    say(`only the start and the end of ${truncated.bytesTotal} bytes were kept; both are shown on standard error`);
  } else if (process.stdout.isTTY) print(harmless(text));
  else process.stdout.write(text); // Unchanged, for the reader of the pipe.
  if (typeof data.stderr === 'string' && data.stderr !== '') process.stderr.write(harmless(data.stderr));
}
