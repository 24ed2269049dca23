/** What a program that the daemon started for a capability printed, and how it ended. */
import type { ChildProcess } from 'node:child_process';
import type { Readable } from 'node:stream';
import { visible } from './text/shown-text.ts';

export interface ProgramAnswer {
  /** The first characters of its standard output. */
  readonly stdout: string;
  /** The last characters of its standard error, safe to show. */
  readonly complaint: string;
  /** Undefined for a program that was ended, or could not be started. */
  readonly code: number | undefined;
}

/** Reads both streams of a child process to their ends, keeps at most so many characters of each, and waits for its own end. Never rejects. */
export async function answerOf(
  child: ChildProcess,
  { charsMax, complaintChars }: { charsMax: number; complaintChars: number },
): Promise<ProgramAnswer> {
  const { stdout, stderr, code } = await outputOf(child, { stdout: charsMax, stderr: charsMax });
  return { stdout, complaint: visible(stderr.trim().slice(-complaintChars)) || 'it was ended', code };
}

/** The first characters of both streams of a child process, when it has ended. Never rejects. */
export async function outputOf(child: ChildProcess, charsMax: { readonly stdout: number; readonly stderr: number }) {
  const ended = endOf(child);
  const streams = [textOf(child.stdout, charsMax.stdout), textOf(child.stderr, charsMax.stderr)] as const;
  const [stdout, stderr] = await Promise.all(streams);
  return { stdout, stderr, code: await ended };
}

async function textOf(stream: Readable | null, charsMax: number): Promise<string> {
  let text = '';
  for await (const chunk of stream?.setEncoding('utf8') ?? []) if (text.length < charsMax) text += String(chunk);
  return text;
}

const endOf = (child: ChildProcess): Promise<number | undefined> =>
  new Promise((resolve) => {
    child.once('close', (code) => resolve(code ?? undefined));
    child.once('error', () => resolve(undefined));
  });
