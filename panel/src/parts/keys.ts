/** Keys of a view: single letters, not while somebody types. */
import { useLayoutEffect } from 'preact/hooks';

const TYPING = 'input, textarea, select';

/** Calls what stands for a key while the view is shown; as soon as the page is drawn anew, since keys come faster than frames. */
export function useKeys(keys: Readonly<Record<string, () => void>>): void {
  useLayoutEffect(() => {
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
