import { once } from 'node:events';
import type { Client } from '../client/client.ts';
import { pour, type Streams } from './call/command-output.ts';
import { callIdOf } from './ids.ts';
import { EXIT, print, say, toJson } from './output.ts';

/** `ringfence logs CALL_ID`: writes each stream to its own output; as JSON, one line for each chunk. Returns the exit code. */
export async function logs(
  id: string,
  { follow = false, json = false }: { follow?: boolean; json?: boolean },
  client: Pick<Client, 'output' | 'request'>,
  output: Streams,
): Promise<number> {
  const callId = await callIdOf(id, client);
  if (json) return logsAsJson(client.output(callId, { follow }), output);
  const { cut } = await pour(client.output(callId, { follow }), output);
  if (cut !== undefined) say(`the log holds only the start of the output: ${cut}`);
  return EXIT.OK;
}

/** Prints `{seq, stream, data}` for each chunk with `data` as text; finally `{cut}` if the log ends before its call. */
async function logsAsJson(entries: ReturnType<Client['output']>, { stdout }: Streams): Promise<number> {
  // A chunk may end within a character.
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
