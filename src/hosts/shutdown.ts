/** Shuts hosts down, and ends what waits for them. */
import { ToolError } from '../base/errors.ts';
import type { Limits } from '../base/limits.ts';
import { onAbort } from '../base/powers.ts';
import type { JobResult, JobUsage } from './job.ts';
import type { OverTime } from './thread-clocks.ts';

/** A host, as far as it is ended. */
interface EndableHost {
  readonly ready: Promise<unknown>;
  readonly gone: Promise<unknown>;
  kill(): void;
}

/** Ends a host, once it is up: a bwrap that is killed while it builds its sandbox leaves an init behind that waits for ever. */
export async function end(host: EndableHost): Promise<void> {
  await host.ready.catch(() => {}); // It is gone already.
  host.kill();
  await host.gone;
}

/** Waits for a promise, but rejects with the signal's reason if an abort comes first; the promise's work goes on. */
export async function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  promise.catch(() => {}); // Reported below, unless the abort came first.
  signal.throwIfAborted();
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  using _ = onAbort(signal, () => reject(signal.reason));
  return await Promise.race([promise, aborted]);
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

const NO_USAGE: JobUsage = { cpuMs: 0, outputBytes: 0, verdict: 'cancelled', enforcedBy: 'worker thread' };

/** The result of a job that was aborted before a thread had room for it. */
export function aborted(): JobResult {
  return { ok: false, error: new ToolError('CANCELLED', 'aborted').toWire(), usage: NO_USAGE };
}

/** The result of a job that exceeded its CPU time; `usage` is its own report, if it gave one. */
export function overTime(over: OverTime, usage: JobUsage = NO_USAGE): JobResult {
  const error = new ToolError('CPU_LIMIT', `the tool took more than ${over.limit} ms of CPU time and was ended`, {
    suggestion: 'Do less at once, or ask the person to raise the limit in the policy.',
    details: { ...over, enforcedBy: 'thread clock' },
  });
  const used = { ...usage, cpuMs: over.used, verdict: 'cpu', enforcedBy: 'thread clock' } as const;
  return { ok: false, error: error.toWire(), usage: used };
}

/** The result of a job whose thread ended since its heap was full. */
export function overMemory(heapMb: number): JobResult {
  const error = new ToolError('MEMORY_LIMIT', `the tool needed more than ${heapMb} MiB of memory`, {
    details: { limit: heapMb * 1024 * 1024, enforcedBy: 'worker thread' },
  });
  return { ok: false, error: error.toWire(), usage: { ...NO_USAGE, verdict: 'memory' } };
}
