/** Keys of a view: single letters, not while somebody types. */
import { useLayoutEffect } from 'preact/hooks';

const TYPING = 'input, textarea, select';

/** Calls the function of a pressed key while the view is shown. A layout effect, since keys may come before the next frame. */
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
