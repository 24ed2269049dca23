/** Keeps a click or a key that was meant for something else from answering: what has just appeared takes no answer. */
import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';

/** Milliseconds in which a person can't yet have read what is new; the terminal has as many. */
const ARMING_MS = 1_000;

/** Whether what `key` names was shown long enough to be answered. */
export function useArmed(key: string): boolean {
  const armed = useSignal<string | undefined>(undefined);
  useEffect(() => {
    const timer = setTimeout(() => {
      armed.value = key;
    }, ARMING_MS);
    return () => clearTimeout(timer);
  }, [key]);
  return armed.value === key;
}
