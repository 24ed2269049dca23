/** A table with a title, which the keyboard can scroll; nothing if it has no rows. */
import type { ComponentChildren } from 'preact';

export function Table({
  title,
  heads,
  kind = '',
  children,
}: {
  title: string;
  heads: readonly string[];
  /** `stack`: on a narrow screen, the cells of a row stand below each other. */
  kind?: '' | 'stack';
  children: ComponentChildren[];
}) {
  if (children.length === 0) return null;
  return (
    <section class={`wide ${kind}`} tabIndex={0} aria-label={title}>
      <h2>{title}</h2>
      <table>
        <thead>
          <tr>
            {heads.map((it) => (
              <th scope="col">{it}</th>
            ))}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </section>
  );
}
