/** How hosts and what waits for them end. */
import { ToolError } from '../errors.ts';
import type { Host } from './host.ts';

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
