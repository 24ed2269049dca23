/** A list of rows of one height, of which only those in view are in the page. */
import { useSignal } from '@preact/signals';
import type { ComponentChild } from 'preact';
import { useEffect, useRef } from 'preact/hooks';

/** Rows above and below those in view, so that scrolling shows no gap. */
const MARGIN = 8;

interface VirtualListProps {
  readonly label: string;
  readonly count: number;
  readonly rowPx: number;
  /** The row at `index`, which must be `rowPx` high. */
  readonly row: (index: number) => ComponentChild;
}

export function VirtualList({ label, count, rowPx, row }: VirtualListProps) {
  const box = useRef<HTMLUListElement>(null);
  const top = useSignal(0);
  const height = useSignal(600);
  useEffect(() => {
    const observer = new ResizeObserver(([it]) => {
      height.value = it?.contentRect.height ?? 600;
    });
    observer.observe(box.current as Element);
    return () => observer.disconnect();
  }, []);
  const first = Math.max(0, Math.min(Math.floor(top.value / rowPx) - MARGIN, count - 1));
  const last = Math.min(count, Math.ceil((top.value + height.value) / rowPx) + MARGIN);
  const indexes = Array.from({ length: Math.max(0, last - first) }, (_, at) => first + at);
  return (
    <ul
      ref={box}
      class="rows"
      tabIndex={0}
      aria-label={label}
      style={{ maxHeight: `${count * rowPx + 2}px` }}
      onScroll={(it) => {
        top.value = it.currentTarget.scrollTop;
      }}
    >
      <li class="gap" aria-hidden="true" style={{ height: `${first * rowPx}px` }} />
      {indexes.map((at) => (
        <li key={at} aria-setsize={count} aria-posinset={at + 1} style={{ height: `${rowPx}px` }}>
          {row(at)}
        </li>
      ))}
      <li class="gap" aria-hidden="true" style={{ height: `${(count - last) * rowPx}px` }} />
    </ul>
  );
}
