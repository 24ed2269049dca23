/** `ringfence version`: versions of this program and of a running daemon. */
import { version } from '../../base/runtime.ts';
import { type CliCaller, ifRunning } from '../connect.ts';
import { EXIT, type JsonFlag, print, printJson, say } from '../output.ts';
import type { Status } from '../status.ts';

/** Prints the versions without starting a daemon. Returns the exit code. */
export async function tellVersion({ json }: JsonFlag, caller: CliCaller): Promise<number> {
  const daemon = await ifRunning(caller, async (client) => {
    const { version: its, pid } = (await client.request('status', {})) as Status;
    return { version: its, pid };
  });
  if (json) printJson({ version, node: process.versions.node, daemon });
  else {
    print(`ringfence ${version}, Node ${process.versions.node}`);
    print(daemon ? `daemon ${daemon.version}, pid ${daemon.pid}` : 'no daemon runs');
  }
  if (daemon && daemon.version !== version)
    say(`the daemon has another version; run \`ringfence stop\`, and the next call starts version ${version}`);
  return EXIT.OK;
}
