import { setTimeout as pause } from 'node:timers/promises';
import { findPlaces, readEndpoint } from '../places.ts';
import { textOf } from '../sandbox/proc.ts';
import { type Caller, connect, isStopping } from './connect.ts';
import { CliError, EXIT, say } from './output.ts';

/** Between looks at whether it is there, and how many: its last word comes before it closes its files. */
const LOOK_MS = 5;
const LOOKS_MAX = 2_000;

/** `ringfence stop`: returns when the daemon's process is gone, and with it all that used its state. Gives the exit code. */
export async function stop(caller: Caller): Promise<number> {
  const pid = await askToEnd(caller);
  for (let looks = 0; isThere(pid); looks++) {
    if (looks === LOOKS_MAX) {
      say(`the daemon has let go of its connections, but its process ${pid} is still there`);
      return EXIT.FAILED;
    }
    await pause(LOOK_MS);
  }
  say('the daemon has stopped');
  return EXIT.OK;
}

/** Gives the process that ends. */
async function askToEnd(caller: Caller): Promise<number> {
  const there = readEndpoint(findPlaces(caller.flags, caller.env).stateDir)?.pid;
  const wasThere = there !== undefined && isThere(there);
  try {
    const client = await connect({ ...caller, role: 'operator', flags: { ...caller.flags, autostart: false } });
    const { pid } = (await client.request('status', {})) as { pid: number };
    await client.request('shutdown', {});
    await client.ended;
    return pid;
  } catch (error) {
    // Somebody else asked it before.
    if (wasThere && (isStopping(error) || (error instanceof CliError && error.exitCode === EXIT.UNREACHABLE)))
      return there;
    throw error;
  }
}

/** One that has ended stays in the table of processes where its parent does not ask for it, as in many containers. */
function isThere(pid: number): boolean {
  const stat = textOf(`/proc/${pid}/stat`);
  if (stat !== undefined) return !/^[ZX]/.test(stat.slice(stat.lastIndexOf(')') + 2));
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
