/** Shows the output of a command as it arrives, then the result of its call. */
import { once } from 'node:events';
import type { ToolResult } from '../../base/call.ts';
import type { Client, OutputEntry } from '../../client/client.ts';
import { harmless, say } from '../output.ts';
import type { LifeLine } from '../screen/life-line.ts';
import { printResult } from './printed-result.ts';

/** Writable streams for a command's standard output and error. */
export interface Streams {
  readonly stdout: NodeJS.WriteStream;
  readonly stderr: NodeJS.WriteStream;
}

/** The amount of output written to the streams. */
export interface StreamedOutput {
  bytes: number;
  /** Why the rest is missing: the reason in the log, or that reading failed. */
  cut?: string;
}

/** Why a log ends before its call. */
const CUTS: Record<string, string> = {
  size: 'the log has reached the limit resultLogBytesMax',
  disk: 'the disk was full or failed',
  crash: 'the daemon ended before the call did',
};

/**
 * Writes both streams of a log to their outputs: unchanged into a pipe or a file, with control characters escaped on a terminal. Updates
 * and returns `poured`, also if reading the log fails.
 */
export async function pour(
  entries: AsyncGenerator<OutputEntry, string | undefined>,
  output: Streams,
  poured: StreamedOutput = { bytes: 0 },
  life?: Pick<LifeLine, 'makeWay'>,
): Promise<StreamedOutput> {
  // A chunk may end within a character.
  const texts = { stdout: new TextDecoder(), stderr: new TextDecoder() };
  for (;;) {
    const { done, value } = await entries.next();
    if (done) {
      for (const name of ['stdout', 'stderr'] as const)
        if (output[name].isTTY) output[name].write(texts[name].decode());
      if (value !== undefined) poured.cut = CUTS[value] ?? value;
      return poured;
    }
    const { stream, data } = value;
    poured.bytes += data.length;
    const to = output[stream];
    const shown = to.isTTY ? harmless(texts[stream].decode(data, { stream: true })) : data;
    life?.makeWay(typeof shown === 'string' ? shown : '');
    if (!to.write(shown)) await once(to, 'drain');
  }
}

/**
 * Shows the output of a call as it arrives, then its result. Reads the output from the call's log instead of from notifications, which a
 * slow reader would lose: standard output never has gaps, and if the log ends early, standard error says so. Returns the result; rejects as
 * `result` does.
 */
export async function showCall(
  { callId, result }: { callId: string; result: PromiseLike<ToolResult> },
  client: Pick<Client, 'output'>,
  {
    isQuiet = false,
    output = process,
    life,
  }: { isQuiet?: boolean; output?: Streams; life?: LifeLine | undefined } = {},
): Promise<ToolResult> {
  const poured: StreamedOutput = { bytes: 0 };
  const pouring = pour(client.output(callId), output, poured, life).catch((error: Error) => {
    poured.cut = error.message; // The log was dropped while it was read; or the connection ended, which `result` reports.
  });
  const ended = await result;
  await pouring;
  const isShown = poured.bytes > 0;
  life?.[Symbol.dispose]();
  if (isShown && poured.cut !== undefined) say(whatIsMissing(ended, poured));
  printResult(ended, { isShown, isQuiet });
  return ended;
}

function whatIsMissing({ callId, metadata }: ToolResult, { bytes, cut }: StreamedOutput): string {
  const all = metadata.resources.outputBytes;
  return (
    `the output above ends after ${bytes} of ${all} bytes: ${cut}. ` +
    `\`ringfence logs ${callId}\` has no more of it; \`--json\` shows its last bytes; to keep all of it, let the command write to a file of the workspace`
  );
}
