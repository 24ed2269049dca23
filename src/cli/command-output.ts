/** What a command writes, shown as it comes, and then what came of its call. */
import { once } from 'node:events';
import type { ToolResult } from '../call.ts';
import type { Client, OutputEntry } from '../client.ts';
import { harmless, printResult, say } from './output.ts';

/** The writable streams for a command's standard output and error. */
export interface Streams {
  readonly stdout: NodeJS.WriteStream;
  readonly stderr: NodeJS.WriteStream;
}

/** What reached the streams. */
export interface Poured {
  bytes: number;
  /** Why the rest did not: the reason that the log gives, or that reading it failed. */
  cut?: string;
}

/** Why a log ends before its call did. */
const CUTS: Record<string, string> = {
  size: 'the log is as long as logs may be (limit resultLogBytesMax)',
  disk: 'the disk could not take more',
  crash: 'the daemon ended before the call did',
};

/**
 * Writes each stream of a log to its own: byte by byte into a pipe or a file, harmless on a terminal. `poured` is kept up to
 * date, also where reading the log fails. Gives it.
 */
export async function pour(
  entries: AsyncGenerator<OutputEntry, string | undefined>,
  output: Streams,
  poured: Poured = { bytes: 0 },
): Promise<Poured> {
  // A piece may end inside a character.
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
    if (!to.write(shown)) await once(to, 'drain');
  }
}

/**
 * Shows the output of a call while it comes, then its result. The output is read from the call's log and not from
 * notifications, since a reader that is slower than the command would lose some of those: standard output never has a hole,
 * and where the log itself ends early, standard error says so. Gives the result; rejects as `result` does.
 */
export async function showCall(
  { callId, result }: { callId: string; result: PromiseLike<ToolResult> },
  client: Pick<Client, 'output'>,
  output: Streams = process,
): Promise<ToolResult> {
  const poured: Poured = { bytes: 0 };
  const pouring = pour(client.output(callId), output, poured).catch((error: Error) => {
    poured.cut = error.message; // The log was dropped while it was read; or the connection ended, which `result` tells.
  });
  const ended = await result;
  await pouring;
  const isShown = poured.bytes > 0;
  if (isShown && poured.cut !== undefined) say(whatIsMissing(ended, poured));
  printResult(ended, { isShown });
  return ended;
}

function whatIsMissing({ callId, metadata }: ToolResult, { bytes, cut }: Poured): string {
  const all = metadata.resources.outputBytes;
  return (
    `the output above ends after ${bytes} of ${all} bytes: ${cut}. ` +
    `\`ringfence logs ${callId}\` has no more of it, \`--json\` its last bytes; for all of it, let the command write to a file of the workspace`
  );
}
