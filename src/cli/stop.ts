import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { findUserDirs, readEndpoint } from '../daemon/user-dirs.ts';
import { textOf } from '../sandbox/proc.ts';
import { lockHolder } from '../store/database.ts';
import { type CliCaller, connect, isStopping } from './connect.ts';
import { CliError, EXIT, say } from './output.ts';

/** Milliseconds between checks for the daemon's process, and the number of checks: the daemon answers before it has closed its files. */
const LOOK_MS = 5;
const LOOKS_MAX = 2_000;
/** Time for the daemon to accept a request, in milliseconds; a daemon that is busy or rejects clients gets a signal. */
const ANSWER_MS = 5_000;

/** `ringfence stop`: returns when the daemon's process is gone, and with it everything that used its state. Returns the exit code. */
export async function stop(caller: CliCaller): Promise<number> {
  const pid = await askToEnd(caller);
  for (let looks = 0; isThere(pid); looks++) {
    if (looks === LOOKS_MAX) {
      say(`process ${pid} of the daemon still runs; to end it at once: kill -9 ${pid}`);
      // An unanswered connection would keep this process alive.
      process.exit(EXIT.FAILED);
    }
    await pause(LOOK_MS);
  }
  say('the daemon has stopped');
  return EXIT.OK;
}

/** Asks the daemon to end; returns its pid. */
async function askToEnd(caller: CliCaller): Promise<number> {
  const { stateDir } = findUserDirs(caller.flags, caller.env);
  const there = readEndpoint(stateDir)?.pid;
  const wasThere = there !== undefined && isThere(there);
  try {
    const { pid, ended } = await inTime(askOverSocket(caller));
    // Running calls get their grace period.
    await ended;
    return pid;
  } catch (error) {
    // Another caller has already asked it to stop.
    if (wasThere && isStopping(error)) return there;
    // The daemon may be practically unreachable: flooded, without its socket, or hanging.
    const holder = lockHolder(join(stateDir, 'daemon.lock'));
    if (holder !== undefined) return signalled(holder, error as Error);
    if (wasThere && error instanceof CliError && error.exitCode === EXIT.UNREACHABLE) return there;
    throw error;
  }
}

async function askOverSocket(caller: CliCaller): Promise<{ pid: number; ended: Promise<void> }> {
  const client = await connect({ ...caller, role: 'operator', flags: { ...caller.flags, autostart: false } });
  const { pid } = (await client.request('status', {})) as { pid: number };
  await client.request('shutdown', {});
  return { pid, ended: client.ended };
}

function signalled(pid: number, { message }: Error): number {
  say(`the daemon accepts no request (${message}); sending SIGTERM to its process ${pid}`);
  try {
    process.kill(pid, 'SIGTERM');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EPERM')
      throw new CliError(EXIT.DENIED, `process ${pid} belongs to another user; stop it as that user`);
    if (code !== 'ESRCH') throw error; // The process has ended in the meantime.
  }
  return pid;
}

async function inTime<T>(work: Promise<T>): Promise<T> {
  const timer = new AbortController();
  const late = pause(ANSWER_MS, undefined, { signal: timer.signal }).then(() => {
    throw new CliError(EXIT.LIMITED, `the daemon did not answer within ${ANSWER_MS / 1000} s`);
  });
  // Avoids an unhandled rejection of the one that settles second.
  for (const it of [work, late]) it.catch(() => {});
  try {
    return await Promise.race([work, late]);
  } finally {
    timer.abort();
  }
}

/** Whether a process runs. A process that has ended stays in the process table if its parent does not reap it, as in many containers. */
function isThere(pid: number): boolean {
  const stat = textOf(`/proc/${pid}/stat`);
  if (stat !== undefined) return !/^[ZX]/.test(stat.slice(stat.lastIndexOf(')') + 2));
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
