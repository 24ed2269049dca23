/** A text in its own box, which the keyboard can scroll. */
import type { ComponentChildren } from 'preact';

interface TextBlockProps {
  readonly label: string;
  readonly kind?: string;
  readonly children: ComponentChildren;
}

export function TextBlock({ label, kind, children }: TextBlockProps) {
  return (
    <section class={kind ? `text ${kind}` : 'text'} tabIndex={0} aria-label={label}>
      <pre>{children}</pre>
    </section>
  );
}
