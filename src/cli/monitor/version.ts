/** `ringfence version`: versions of this program and of a running daemon. */
import { version } from '../../base/runtime.ts';
import { type CliCaller, connect } from '../connect.ts';
import { CliError, EXIT, type JsonFlag, print, printJson, say } from '../output.ts';

interface RunningDaemon {
  readonly version: string;
  readonly pid: number;
}

/** Prints the versions without starting a daemon. Returns the exit code. */
export async function tellVersion({ json }: JsonFlag, caller: CliCaller): Promise<number> {
  const daemon = await versionOfDaemon(caller);
  if (json) printJson({ version, node: process.versions.node, daemon });
  else {
    print(`ringfence ${version}, Node ${process.versions.node}`);
    print(daemon ? `daemon ${daemon.version}, pid ${daemon.pid}` : 'no daemon runs');
  }
  if (daemon && daemon.version !== version)
    say(`the daemon has another version; run \`ringfence stop\`, and the next call starts version ${version}`);
  return EXIT.OK;
}

async function versionOfDaemon(caller: CliCaller): Promise<RunningDaemon | undefined> {
  try {
    await using client = await connect({ ...caller, role: 'operator' });
    const { version: its, pid } = (await client.request('status', {})) as RunningDaemon;
    return { version: its, pid };
  } catch (error) {
    if (error instanceof CliError && error.exitCode === EXIT.UNREACHABLE) return undefined;
    throw error;
  }
}
