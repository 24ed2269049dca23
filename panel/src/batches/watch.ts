/** Reads something again whenever calls change, but not for each of them. */
import { useEffect } from 'preact/hooks';
import { onNotice } from '../connection.ts';

/** Milliseconds between two readings. */
const EVERY_MS = 500;
/** How many times as long as a reading took nothing is read: what takes the daemon long is read more seldom. */
const REST = 10;

const watchers = new Set<(sessionId: string | undefined) => void>();
onNotice('call.update', ({ sessionId }) => {
  for (const it of watchers) it(sessionId);
});

interface WatchOptions {
  /** Whether it may still change. */
  isOpen(): boolean;
  /** The session whose calls matter; all if absent. */
  readonly sessionId?: string | undefined;
}

/** Calls `read` now, and after calls have changed; while nothing changes, times go on if it is open. */
export function useWatch(read: () => Promise<void>, { isOpen, sessionId }: WatchOptions, inputs: unknown[]): void {
  useEffect(() => {
    let [isWanted, isReading, isLeft] = [true, false, false];
    let nextMs = 0;
    const look = () => {
      const beganMs = performance.now();
      if (!isWanted || isReading || document.hidden || beganMs < nextMs) return;
      [isWanted, isReading] = [false, true];
      // A connection that is lost is told at the top of the page; what is read again is asked for again.
      void read()
        .catch(() => {})
        .finally(() => {
          isReading = false;
          nextMs = performance.now() + (performance.now() - beganMs) * REST;
          isWanted ||= isOpen();
        });
    };
    const note = (changed: string | undefined) => {
      if (sessionId === undefined || changed === sessionId) isWanted = true;
    };
    watchers.add(note);
    look();
    const timer = setInterval(() => !isLeft && look(), EVERY_MS);
    return () => {
      isLeft = true;
      clearInterval(timer);
      watchers.delete(note);
    };
  }, inputs);
}
