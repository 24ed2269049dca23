/** `ringfence approvals untrusted`: who has read what strangers wrote. */
import { resolve } from 'node:path';
import { showLine } from '../../base/text/shown-text.ts';
import type { Client } from '../../client/client.ts';
import { EXIT, print, printJson, say } from '../output.ts';

/** Lists who counts as having read what strangers wrote; `clear` ends that. Returns the exit code. */
export async function untrusted(
  client: Pick<Client, 'request'>,
  folder: string | undefined,
  { clear = false, json }: { clear?: boolean; json?: boolean },
): Promise<number> {
  const asked = { clear, ...(folder !== undefined && { workspace: resolve(folder) }) };
  const { marks } = await client.request('approvals.untrusted', asked);
  if (json) printJson(marks);
  for (const it of marks)
    print(showLine(`${it.principal} in ${it.workspace}: ${it.tool} at ${it.at}, call ${it.callId}`));
  say(clear ? `cleared ${marks.length} marks` : `${marks.length} principals have read what strangers wrote`);
  return EXIT.OK;
}
