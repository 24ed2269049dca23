/**
 * Parses the input of a call from the command line: one JSON object, or key=value words; values or the whole may come from files or
 * standard input.
 */
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { defaultLimits } from '../../base/limits.ts';
import { jsonOr, parseJson } from '../../base/text/json.ts';
import type { Client } from '../../client/client.ts';
import { harmless, UsageError } from '../output.ts';

interface InputTarget {
  /** Provides the schema, which tells which parameters are texts. */
  readonly client: Pick<Client, 'tools'>;
  readonly tool: string;
  /** The folder that file paths are relative to. */
  readonly cwd: string;
}

const STANDARD_INPUT = 0;

/**
 * The input from `words`: `{…}`, `@file` or `-` (standard input) for the whole; otherwise `key=value`, where the value may be `@file` or
 * `@-`, and `@@` stands for a leading `@`. Values are parsed according to the tool's schema. Throws UsageError.
 */
export async function readInput(words: readonly string[], { client, tool, cwd }: InputTarget): Promise<unknown> {
  const [first = ''] = words;
  if (words.length === 0) return {};
  if (words.length === 1 && first.trimStart().startsWith('{')) return readJson(first, 'input');
  if (words.length === 1 && first === '-') return readJson(readText('-', cwd), 'standard input');
  if (words.length === 1 && first.startsWith('@')) return readJson(readText(first.slice(1), cwd), first);
  const textual = await textsOf(tool, client);
  let standardInputFor: string | undefined;
  const pairs = words.map((word) => {
    const at = word.indexOf('=');
    if (at < 1)
      throw new UsageError(
        `write the input as one JSON object or as key=value words; \`${harmless(word)}\` is neither`,
      );
    const key = word.slice(0, at);
    const value = word.slice(at + 1);
    if (value === '@-' && standardInputFor !== undefined)
      throw new UsageError(
        `standard input is already used for ${standardInputFor}; read ${key} from a file: ${key}=@file`,
      );
    if (value === '@-') standardInputFor = key;
    const text = /^@[^@]/.test(value) ? readText(value.slice(1), cwd) : value.replace(/^@@/, '@');
    return [key, textual.has(key) ? text : jsonOr(text, text)] as const;
  });
  return Object.fromEntries(pairs);
}

/** Parameters of type string, whose values are never parsed as JSON. */
async function textsOf(tool: string, client: InputTarget['client']): Promise<ReadonlySet<string>> {
  const info = (await client.tools()).find((it) => it.name === tool || it.aliases.includes(tool));
  const { properties = {} } = (info?.inputSchema ?? {}) as { properties?: Record<string, { type?: string }> };
  return new Set(Object.keys(properties).filter((key) => properties[key]?.type === 'string'));
}

/**
 * The text of a file, or of standard input for `-`. Throws UsageError for input that can't be read, is not UTF-8, or exceeds the bound
 * of a call.
 */
function readText(path: string, cwd: string): string {
  const name = path === '-' ? 'standard input' : path;
  let bytes: Buffer;
  try {
    bytes = readFileSync(path === '-' ? STANDARD_INPUT : resolve(cwd, path));
  } catch (error) {
    throw new UsageError(`can't read ${harmless(name)}: ${(error as NodeJS.ErrnoException).code}`);
  }
  const { frameBytesMax } = defaultLimits;
  if (bytes.length > frameBytesMax)
    throw new UsageError(`${harmless(name)} is ${bytes.length} bytes; a call can hold at most ${frameBytesMax}`);
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new UsageError(`${harmless(name)} is not UTF-8 text`); // TypeError
  }
}

function readJson(text: string, name: string): unknown {
  try {
    return parseJson(text);
  } catch (error) {
    throw new UsageError(`${harmless(name)} is not JSON: ${(error as Error).message}`);
  }
}
