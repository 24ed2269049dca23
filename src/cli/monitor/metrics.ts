/** `ringfence metrics`: the daemon's metrics as Prometheus reads them. */
import type { Client } from '../../client/client.ts';
import { EXIT, harmless, type JsonFlag, print, printJson } from '../output.ts';

export async function metrics({ json }: JsonFlag, client: Pick<Client, 'request'>): Promise<number> {
  if (json) printJson(await client.request('metrics.read', { format: 'json' }));
  else print(harmless(((await client.request('metrics.read', {})) as { text: string }).text));
  return EXIT.OK;
}
