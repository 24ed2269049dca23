import { setTimeout as pause } from 'node:timers/promises';
import { textOf } from '../sandbox/proc.ts';
import { type Caller, connect } from './connect.ts';
import { EXIT, say } from './output.ts';

/** Between looks at whether it is there, and how many: its last word comes before it closes its files. */
const LOOK_MS = 5;
const LOOKS_MAX = 2_000;

/** `ringfence stop`: returns when the daemon's process is gone, and with it all that used its state. Gives the exit code. */
export async function stop(caller: Caller): Promise<number> {
  const client = await connect({ ...caller, role: 'operator', flags: { ...caller.flags, autostart: false } });
  const { pid } = (await client.request('status', {})) as { pid: number };
  await client.request('shutdown', {});
  await client.ended;
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
