import { once } from 'node:events';
import type { Client } from '../client.ts';
import { pour, type Streams } from './command-output.ts';
import { EXIT, print, say, toJson } from './output.ts';

/** `ringfence logs CALL_ID`: each stream to its own; as JSON, a line for each piece. Gives the exit code. */
export async function logs(
  callId: string,
  { follow = false, json = false }: { follow?: boolean; json?: boolean },
  client: Pick<Client, 'output'>,
  output: Streams,
): Promise<number> {
  if (json) return logsAsJson(client.output(callId, { follow }), output);
  const { cut } = await pour(client.output(callId, { follow }), output);
  if (cut !== undefined) say(`the log ends before the output of the call did: ${cut}`);
  return EXIT.OK;
}

/** `{seq, stream, data}` a line, `data` as text; last `{cut}`, where the log ends before its call did. */
async function logsAsJson(entries: ReturnType<Client['output']>, { stdout }: Streams): Promise<number> {
  // A piece may end inside a character.
  const texts = { stdout: new TextDecoder(), stderr: new TextDecoder() };
  for (;;) {
    const { done, value } = await entries.next();
    if (done) {
      if (value !== undefined) print(toJson({ cut: value }));
      return EXIT.OK;
    }
    const { seq, stream, data } = value;
    const line = toJson({ seq, stream, data: texts[stream].decode(data, { stream: true }) });
    if (!stdout.write(`${line}\n`)) await once(stdout, 'drain');
  }
}
