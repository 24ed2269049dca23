import { once } from 'node:events';
import type { Client } from '../client.ts';
import { harmless, say } from './output.ts';

/** Where the two streams go. */
export interface LogsOutput {
  readonly stdout: NodeJS.WriteStream;
  readonly stderr: NodeJS.WriteStream;
}

/** Why a log ends before its call did. */
const CUTS: Record<string, string> = {
  size: 'it is as long as logs may be',
  disk: 'the disk could not take more',
  crash: 'the daemon ended before the call did',
};

/** `ringfence logs CALL_ID`: each stream to its own, byte by byte into a pipe, harmless on a terminal. Gives the exit code. */
export async function logs(
  callId: string,
  { follow = false }: { follow?: boolean },
  client: Client,
  output: LogsOutput,
): Promise<number> {
  const texts = { stdout: new TextDecoder(), stderr: new TextDecoder() };
  const entries = client.output(callId, { follow });
  for (;;) {
    const { done, value } = await entries.next();
    if (done) {
      for (const name of ['stdout', 'stderr'] as const)
        if (output[name].isTTY) output[name].write(texts[name].decode());
      if (value !== undefined) say(`the log ends before the output of the call did: ${CUTS[value] ?? value}`);
      return 0;
    }
    const { stream, data } = value;
    const to = output[stream];
    const shown = to.isTTY ? harmless(texts[stream].decode(data, { stream: true })) : data;
    if (!to.write(shown)) await once(to, 'drain');
  }
}
