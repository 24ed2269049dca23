/** Reads the standard input of a command that may not want it, and whose sender may never end it. */
import { fstatSync, readFileSync } from 'node:fs';
import type { Readable } from 'node:stream';
import { setTimeout as wait } from 'node:timers/promises';
import { CliError, EXIT } from '../output.ts';

/** The most that a call takes. */
const BYTES_MAX = 8 * 1024 * 1024;
/** Agents start shells with a pipe that they never write to nor close: one that is silent this long counts as empty. */
const SILENT_MS = 100;

/** All of standard input; a script is read so. Throws CliError. */
export const wholeInput = (): string => toText(readFileSync(0));

/** Standard input, if there is any: the whole of a file, and of a pipe that says something soon. Throws CliError. */
export async function inputIfAny(stream: Readable = process.stdin): Promise<string> {
  const kind = fstatSync(0);
  if (kind.isFile()) return wholeInput();
  if (!kind.isFIFO() && !kind.isSocket()) return '';
  const pieces: Buffer[] = [];
  let bytes = 0;
  const ended = (async () => {
    for await (const piece of stream as AsyncIterable<Buffer>) {
      pieces.push(piece);
      bytes += piece.length;
      if (bytes > BYTES_MAX) break;
    }
  })();
  await Promise.race([ended, wait(SILENT_MS)]);
  if (bytes === 0) {
    stream.destroy();
    ended.catch(() => {}); // It was destroyed while it was read.
    return '';
  }
  await ended;
  return toText(Buffer.concat(pieces));
}

function toText(bytes: Buffer): string {
  if (bytes.length > BYTES_MAX)
    throw new CliError(EXIT.USAGE, `standard input has more than ${BYTES_MAX} bytes; let the command read a file`);
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw new CliError(EXIT.USAGE, 'standard input is not UTF-8; let the command read a file of the workspace');
  }
}
