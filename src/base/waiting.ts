import type { Powers } from './powers.ts';

/** Waits; throws the reason of an abort. */
export async function waitUnlessAborted(
  ms: number,
  { signal, powers }: { signal: AbortSignal; powers: Powers },
): Promise<void> {
  signal.throwIfAborted();
  await new Promise<void>((resolve, reject) => {
    const leave = () => {
      timer.cancel();
      reject(signal.reason as Error);
    };
    const timer = powers.after(ms, () => {
      signal.removeEventListener('abort', leave);
      resolve();
    });
    signal.addEventListener('abort', leave, { once: true });
  });
}
