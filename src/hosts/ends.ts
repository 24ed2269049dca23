/** How hosts and what waits for them end. */
import { ToolError } from '../errors.ts';
import type { Limits } from '../limits.ts';
import type { Host, JobEnd } from './host.ts';
import type { JobResult } from './job.ts';

/** A bwrap that is killed while it builds its sandbox leaves an init behind that waits for ever, so it may come up first. */
export async function end(host: Host): Promise<void> {
  await host.ready.catch(() => {}); // Then it is gone.
  host.kill();
  await host.gone;
}

/** Rejects with the signal's reason when that comes first; what is waited for goes on. */
export async function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  promise.catch(() => {}); // Told below, unless the abort came first.
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

/** Of a call whose host is gone. */
export function crashed(pid: number): ToolError {
  return new ToolError('HOST_CRASHED', 'the tier host of this call died under it', {
    suggestion: 'What the call had already done is not undone; look before you try again.',
    details: { hostPid: pid },
  });
}

/** A command is asked to end before it is killed where somebody may still want what it does then. */
export function graceOf(reason: unknown, { commandTermGraceMs }: Limits): number {
  if (!(reason instanceof ToolError)) return 0;
  return reason.code === 'TIMEOUT' || reason.extras.details?.by === 'caller' ? commandTermGraceMs : 0;
}

/** A thread that died under a job is to its caller what a host that died is. */
export function toEnd(result: JobResult): JobEnd {
  return !result.ok && result.error.code === 'HOST_CRASHED' ? { crashed: true } : { result };
}
