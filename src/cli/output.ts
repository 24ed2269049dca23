/** What people and programs see: results on stdout, everything else on stderr, exit codes of docs/protocol.md. */
import type { ToolResult } from '../call.ts';

export const EXIT = { OK: 0, FAILED: 1, USAGE: 2, UNREACHABLE: 3, DENIED: 4, LIMITED: 5, INTERRUPTED: 130 } as const;

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
/** JSON itself leaves DEL, C1 and what turns text around as they are, and terminals heed them. */
export const printJson = (value: unknown): void =>
  print(JSON.stringify(value, null, process.stdout.isTTY ? 2 : undefined).replace(DRIVING, toEscape));

/** What drives a terminal, or shows text in another order than it has: controls but \n and \t, and bidirectional marks. */
const DRIVING = /(?![\n\t])[\p{Cc}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu;

const toEscape = (it: string): string => `\\u${it.charCodeAt(0).toString(16).padStart(4, '0')}`;

/** Other people's text with what drives terminals made visible, so that a file name can't. */
export const harmless = (text: string): string =>
  text.replace(DRIVING, (it) => {
    const code = it.charCodeAt(0);
    return code < 0x100 ? `\\x${code.toString(16).padStart(2, '0')}` : toEscape(it);
  });

export function exitCodeOf(result: ToolResult): number {
  if (result.success) return EXIT.OK;
  const { category, layer } = result.error;
  if (category === 'PERMISSION') return EXIT.DENIED;
  if (category === 'TIMEOUT' || layer === 'limit') return EXIT.LIMITED;
  return category === 'CANCELLED' ? EXIT.INTERRUPTED : EXIT.FAILED;
}

const DENIALS_SHOWN = 5;

/** A result for people: the text where there is one, else JSON; how it went on stderr. */
export function printResult(result: ToolResult): void {
  const { metadata } = result;
  const facts = [
    metadata.tier,
    metadata.hostPid && `host ${metadata.hostPid}`,
    `${metadata.durationMs} ms`,
    metadata.resources.verdict,
  ];
  for (const { target, reason, suggestion } of metadata.denied?.slice(0, DENIALS_SHOWN) ?? [])
    say(harmless(`refused: ${target}${reason ? `, ${reason}` : ''}. ${suggestion ?? ''}`));
  for (const warning of metadata.warnings ?? []) say(harmless(warning));
  if (!result.success) {
    const { code, message, suggestion } = result.error;
    return say(`${code}: ${harmless(message)}${suggestion ? `\n  ${harmless(suggestion)}` : ''}`);
  }
  const data = result.data as Record<string, unknown>;
  const text = data.content ?? data.stdout ?? data.diff ?? data.tree;
  if (typeof text === 'string' && process.stdout.isTTY) print(harmless(text));
  else if (typeof text === 'string')
    process.stdout.write(text); // Exactly, for whatever reads the pipe.
  else printJson(data);
  if (typeof data.stderr === 'string' && data.stderr !== '') process.stderr.write(harmless(data.stderr));
  say(
    `${facts.filter(Boolean).join(' · ')}${typeof data.exitCode === 'number' ? ` · exit code ${data.exitCode}` : ''}`,
  );
}
