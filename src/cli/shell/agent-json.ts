/** Settings of an agent as JSON, in a variable or in a file that a variable names, merged over those that are there. */
import { existsSync, readFileSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { isRecord } from '../../base/text/values.ts';
import type { Environment } from '../../daemon/user-dirs.ts';
import type { AgentStart } from '../install/agents.ts';
import { readJson, splitMark } from '../install/config-edit.ts';
import { harmless, OperatorError } from '../output.ts';

export interface JsonOfRun {
  /** The variable to set. */
  readonly set: Readonly<Record<string, string>>;
  readonly file?: { readonly path: string; readonly text: string };
}

/** Throws OperatorError if the present settings can't be read, or the agent would not read its file in `folder`. */
export function withJson(
  { variable, inFile, otherwise, value }: NonNullable<AgentStart['json']>,
  env: Environment,
  folder: string,
): JsonOfRun {
  const given = env[variable] || undefined;
  const source = inFile ? (given ?? otherwise) : variable;
  const present = inFile ? textAt(source) : given;
  const text = JSON.stringify(merged(parsed(present, source), value), null, inFile ? 2 : undefined);
  if (!inFile) return { set: { [variable]: text } };
  assertUnshared(folder);
  const path = join(folder, 'settings.json');
  return { set: { [variable]: path }, file: { path, text: `${text}\n` } };
}

const textAt = (path: string | undefined): string | undefined =>
  path !== undefined && existsSync(path) ? readFileSync(path, 'utf8') : undefined;

function parsed(text: string | undefined, source = 'the settings'): Record<string, unknown> {
  try {
    return readJson(splitMark(text ?? '')[1]) ?? {};
  } catch (error) {
    throw new OperatorError(`${harmless(source)}: ${(error as Error).message}`);
  }
}

/** Objects are merged, lists united; another value replaces what is there. A replaced member moves to the end. */
function merged(before: Readonly<Record<string, unknown>>, over: Readonly<Record<string, unknown>>): object {
  const result: Record<string, unknown> = { ...before };
  for (const [key, value] of Object.entries(over)) {
    const known = result[key];
    delete result[key]; // Where the last rule that matches decides, ours must be the last.
    if (isRecord(value)) result[key] = merged(isRecord(known) ? known : {}, value);
    else if (Array.isArray(value) && Array.isArray(known)) result[key] = [...new Set([...known, ...value])];
    else result[key] = value;
  }
  return result;
}

/**
 * Gemini CLI skips a settings file below a folder that others may write, with no more than a warning; then its own tools
 * would be there. Throws OperatorError.
 */
function assertUnshared(folder: string): void {
  for (let at = folder; ; at = dirname(at)) {
    if (existsSync(at) && (statSync(at).mode & 0o022) !== 0)
      throw new OperatorError(
        `the agent would not read its settings in ${harmless(folder)}, since others may write to ${harmless(at)}; choose another --state`,
      );
    if (at === dirname(at)) return;
  }
}
