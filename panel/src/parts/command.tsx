/** A command for a terminal, with a button that copies it. */
import { useSignal } from '@preact/signals';

export function Command({ children }: { children: string }) {
  const copied = useSignal(false);
  const copy = async () => {
    await navigator.clipboard.writeText(children);
    copied.value = true;
  };
  return (
    <span class="command">
      <code>{children}</code>{' '}
      <button type="button" onClick={() => void copy().catch(() => {})} aria-label={`Copy ${children}`}>
        {copied.value ? 'Copied' : 'Copy'}
      </button>
    </span>
  );
}
