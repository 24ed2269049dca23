/** Keys of a view: single letters, not while somebody types. */
import { useEffect } from 'preact/hooks';

const TYPING = 'input, textarea, select';

/** Calls what stands for a key while the view is shown. */
export function useKeys(keys: Readonly<Record<string, () => void>>): void {
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      const act = keys[event.key];
      const isPlain = !event.ctrlKey && !event.metaKey && !event.altKey && !event.repeat;
      if (!act || !isPlain || (event.target as Element).matches(TYPING)) return;
      event.preventDefault();
      act();
    };
    document.addEventListener('keydown', onKeyDown);
    return () => document.removeEventListener('keydown', onKeyDown);
  });
}
