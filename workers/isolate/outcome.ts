/** Strips a program's types, and turns its end into a result. */
import { stripTypeScriptTypes } from 'node:module';
import type ivm from 'isolated-vm';
import { ToolError } from '../../src/base/errors.ts';
import { parseJson } from '../../src/base/text/json.ts';
import type { JobResult } from '../../src/hosts/job.ts';

/** Wraps a source for a syntax check: `await` and `return` need an async function. */
const BEFORE = 'async()=>{';
const AFTER = '\n}';

/** Whether the end text says that the source does not parse as a function body; then nothing of it was run. */
export const isUnparsed = (end: string): boolean => end[0] === 's';

/**
 * Strips the types of a source that does not parse, and keeps each character's position; undefined if types are not
 * the problem. Compiles in the isolate, within its bounds, and runs nothing. Throws CODE_ERROR with the position of
 * the error.
 */
export async function withoutTypes(isolate: ivm.Isolate, source: string): Promise<string | undefined> {
  const complaint = await syntaxErrorOf(isolate, source);
  // The source closes the function that wraps it here.
  if (!complaint) return undefined;
  let stripped: string;
  try {
    stripped = stripTypeScriptTypes(BEFORE + source + AFTER).slice(BEFORE.length, -AFTER.length);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    // Syntax beyond types would need translation: an enum, a namespace, a parameter property.
    if (code === 'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX') throw codeError({ name: 'SyntaxError', message });
    throw complaint; // ERR_INVALID_TYPESCRIPT_SYNTAX: neither JavaScript nor TypeScript.
  }
  const still = await syntaxErrorOf(isolate, stripped);
  if (still) throw still;
  return stripped;
}

async function syntaxErrorOf(isolate: ivm.Isolate, source: string): Promise<ToolError | undefined> {
  try {
    const script = await isolate.compileScript(`(${BEFORE}${source}${AFTER})`, { filename: 'program' });
    script.release();
    return undefined;
  } catch (thrown) {
    const { name, message } = thrown as Error;
    if (name !== 'SyntaxError') throw thrown;
    const position = /\s*\[program:(\d+):(\d+)\]$/.exec(message);
    const line = Number(position?.[1] ?? 1);
    const column = Number(position?.[2] ?? 1) - (line === 1 ? BEFORE.length + 1 : 0);
    const text = position ? message.slice(0, position.index) : message;
    return codeError({ name, message: text, line, column: Math.max(column, 1) });
  }
}

interface GuestError {
  readonly name: string;
  readonly message: string;
  readonly line?: number;
  readonly column?: number;
  /** Error code of the tool that failed. */
  readonly code?: string;
}

function codeError({ name, message, line, column, code }: GuestError): ToolError {
  const where = line === undefined ? '' : ` (line ${line}, column ${column})`;
  const flat = message.replaceAll(/\s+/g, ' ').slice(0, 500);
  return new ToolError('CODE_ERROR', `the program threw ${name.slice(0, 64)}: ${flat}${where}`.toWellFormed(), {
    suggestion: 'Correct the program; the details give line and column.',
    details: {
      name: name.slice(0, 64).toWellFormed(),
      message: message.slice(0, 2000).toWellFormed(),
      ...(line !== undefined && { line, column }),
      ...(code && { code: code.slice(0, 64) }),
    },
  });
}

/** Lines that the engine adds before the body of a function made from a string. */
const HEADER_LINES = 2;

/** The innermost position in the program in a stack trace. */
function placeIn(stack: string): { line: number; column: number } | undefined {
  const at = /eval at guest[^\n]*<anonymous>:(\d+):(\d+)\)/.exec(stack) ?? /<anonymous>:(\d+):(\d+)/.exec(stack);
  if (!at) return undefined;
  const line = Number(at[1]) - HEADER_LINES;
  return line >= 1 ? { line, column: Number(at[2]) } : undefined;
}

interface GuestEnd {
  /** The most bytes of a value as JSON. */
  readonly limit: number;
  readonly cpuMs: number;
}

/** Parses the guest's end text, which may hold anything. Throws CODE_ERROR. */
export function outcomeOf(text: unknown, { limit, cpuMs }: GuestEnd): JobResult {
  if (typeof text !== 'string')
    throw new ToolError('CODE_ERROR', 'the program replaced built-in functions that return its value');
  const body = text.slice(1);
  const outputBytes = Buffer.byteLength(body);
  const usage = { cpuMs, outputBytes, enforcedBy: 'isolate' } as const;
  if (text[0] === 'e' || isUnparsed(text)) throw codeError(thrownOf(body));
  if (text[0] === 'l' || outputBytes > limit) {
    const error = new ToolError('OUTPUT_LIMIT', `the value of the program is over ${limit} bytes as JSON`, {
      suggestion: 'Return a part of it, or write it to a file.',
      details: { limit, used: text[0] === 'l' ? Number(body) || limit : outputBytes, enforcedBy: 'isolate' },
    });
    return { ok: false, error: error.toWire(), usage: { ...usage, outputBytes: 0, verdict: 'output' } };
  }
  const data = text[0] === 'v' ? { value: parsed(body) } : {};
  return { ok: true, data, usage: { ...usage, verdict: 'ok' } };
}

function thrownOf(body: string): GuestError {
  const [name = 'Error', message = '', stack = '', code = ''] = body.split('\n').map(wordOf);
  return { name, message, code, ...placeIn(stack) };
}

function wordOf(json: string): string {
  const word: unknown = parsed(json);
  return typeof word === 'string' ? word : '';
}

function parsed(json: string): unknown {
  try {
    return parseJson(json);
  } catch {
    throw new ToolError('CODE_ERROR', 'the program replaced built-in functions that return its value');
  }
}
