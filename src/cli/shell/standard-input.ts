/** Reads the standard input of a command that may not want it, and whose sender may never end it. */
import { fstatSync, readFileSync } from 'node:fs';
import type { Readable } from 'node:stream';
import { setTimeout as wait } from 'node:timers/promises';
import { UsageError } from '../output.ts';
import { isIncomplete } from './command-lines.ts';

/** The most that a call takes. */
const BYTES_MAX = 8 * 1024 * 1024;
/** Agents start shells with a pipe that they never write to nor close: one that is silent this long counts as empty. */
const SILENT_MS = 100;
/** A program that is silent this long behind a complete command waits for its output. */
const WAITING_MS = 250;

/** All of standard input. Throws UsageError. */
const wholeInput = (): string => toText(readFileSync(0));

/**
 * A script on standard input, which bash runs as a whole; undefined for a pipe that stays open behind a complete command
 * and falls silent: a program writes its commands one by one and waits for what each gives. Throws UsageError.
 */
export async function scriptOrCommands(stream: Readable = process.stdin): Promise<string | undefined> {
  const kind = fstatSync(0);
  if (!kind.isFIFO() && !kind.isSocket()) return wholeInput();
  const pieces: Buffer[] = [];
  const { promise: ended, resolve } = Promise.withResolvers<boolean>();
  let bytes = 0;
  let silence = new AbortController();
  const judge = () => {
    const text = Buffer.concat(pieces).toString();
    if (text.endsWith('\n') && !isIncomplete(text)) resolve(false);
  };
  const take = (piece: Buffer) => {
    pieces.push(piece);
    bytes += piece.length;
    if (bytes > BYTES_MAX) resolve(true);
    silence.abort();
    silence = new AbortController();
    wait(WAITING_MS, undefined, { signal: silence.signal }).then(judge, () => {}); // More was written meanwhile.
  };
  const end = () => resolve(true);
  stream.on('data', take).once('end', end);
  const isWhole = await ended;
  stream.off('data', take).off('end', end);
  silence.abort();
  stream.pause();
  if (isWhole) return toText(Buffer.concat(pieces));
  stream.unshift(Buffer.concat(pieces));
  return undefined;
}

/** Standard input, if there is any: the whole of a file, and of a pipe that says something soon. Throws UsageError. */
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
    throw new UsageError(`standard input has more than ${BYTES_MAX} bytes; let the command read a file`);
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw new UsageError('standard input is not UTF-8; let the command read a file of the workspace');
  }
}
