/** Shuts hosts down, and ends what waits for them. */
import { ToolError } from '../errors.ts';
import type { Limits } from '../limits.ts';
import type { Host, JobEnd } from './host.ts';
import type { JobResult } from './job.ts';

/** Ends a host, once it is up: a bwrap that is killed while it builds its sandbox leaves an init behind that waits for ever. */
export async function end(host: Pick<Host, 'ready' | 'kill' | 'gone'>): Promise<void> {
  await host.ready.catch(() => {}); // It is gone already.
  host.kill();
  await host.gone;
}

/** Waits for a promise, but rejects with the signal's reason if an abort comes first; the promise's work goes on. */
export async function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  promise.catch(() => {}); // Reported below, unless the abort came first.
  if (signal.aborted) throw signal.reason;
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const abort = () => reject(signal.reason);
  signal.addEventListener('abort', abort);
  try {
    return await Promise.race([promise, aborted]);
  } finally {
    signal.removeEventListener('abort', abort);
  }
}

/** The error of a call whose host died. */
export function crashed(pid: number): ToolError {
  return new ToolError('HOST_CRASHED', 'the host process of this call ended while the call ran', {
    suggestion: 'Nothing that the call did is undone; check its effects before you try again.',
    details: { hostPid: pid },
  });
}

/** Milliseconds that a command gets to end after SIGTERM; 0 if nobody may still want what it does then. */
export function graceOf(reason: unknown, { commandTermGraceMs }: Limits): number {
  if (!(reason instanceof ToolError)) return 0;
  return reason.code === 'TIMEOUT' || reason.extras.details?.by === 'caller' ? commandTermGraceMs : 0;
}

/** The end of a job: a thread that died during a job counts as a host that died. */
export function toEnd(result: JobResult): JobEnd {
  return !result.ok && result.error.code === 'HOST_CRASHED' ? { crashed: true } : { result };
}
