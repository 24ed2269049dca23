/** `ringfence connector from-openapi`: writes a connector file of an OpenAPI document, and says what it leaves out. */
import { readFileSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import { defaultLimits as limits } from '../../base/limits.ts';
import { readUpTo } from '../../base/text/bounded.ts';
import { writeConnector } from '../../services/connectors/openapi/connector-text.ts';
import { readOpenApi } from '../../services/connectors/openapi/document.ts';
import type { LeftOut } from '../../services/connectors/openapi/selection.ts';
import { PinError } from '../../services/pinned/pin-error.ts';
import type { CliCaller } from '../connect.ts';
import { EXIT, harmless, printJson, say, UsageError } from '../output.ts';

export interface FromOpenApiFlags {
  readonly json?: boolean;
  readonly operations?: readonly string[];
  readonly name?: string;
}

/** Lines about what was left out; documents have more operations than anybody reads about. */
const SHOWN_MAX = 10;

/** Writes the file to standard output, and the rest to standard error. Returns the exit code. */
export async function connectorFromOpenApi(
  file: string,
  { json, operations: only = [], name }: FromOpenApiFlags,
  { cwd }: CliCaller,
): Promise<number> {
  if (name !== undefined && !/^[a-z][a-z0-9]*(_[a-z0-9]+)*$/.test(name))
    throw new UsageError('--name takes lower-case letters, digits and single _, a letter first');
  const label = file === '-' ? 'standard input' : file;
  const text = file === '-' ? await readInput() : readDocument(resolve(cwd, file));
  const written = writeConnector(readOpenApi(text, label, limits), { only, name, label, limits });
  if (json) printJson(written);
  else process.stdout.write(written.text);
  const { operations, total, leftOut } = written;
  say(`${operations} of ${total} operations${only.length === 0 ? '; choose some with --operations' : ''}`);
  tellLeftOut(leftOut);
  return EXIT.OK;
}

function tellLeftOut(leftOut: readonly LeftOut[]): void {
  for (const { operation, why } of leftOut.slice(0, SHOWN_MAX)) say(harmless(`left out ${operation}: ${why}`));
  if (leftOut.length > SHOWN_MAX) say(`left out ${leftOut.length - SHOWN_MAX} more; --json lists all`);
}

const tooLarge = (label: string): PinError =>
  new PinError([`${label} has more than ${limits.openApiBytesMax} bytes, the most that is read`]);

function readDocument(path: string): string {
  try {
    if (statSync(path).size > limits.openApiBytesMax) throw tooLarge(path);
    return readFileSync(path, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === undefined) throw error;
    throw new PinError([`${path} can't be read (${code})`]);
  }
}

async function readInput(): Promise<string> {
  const bytes = await readUpTo(process.stdin, limits.openApiBytesMax);
  if (!bytes) throw tooLarge('standard input');
  return bytes.toString('utf8');
}
