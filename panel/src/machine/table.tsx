/** A table with a title, which the keyboard can scroll; nothing if it has no rows. */
import type { ComponentChildren } from 'preact';

export function Table({
  title,
  heads,
  children,
}: {
  title: string;
  heads: readonly string[];
  children: ComponentChildren[];
}) {
  if (children.length === 0) return null;
  return (
    <section class="wide" tabIndex={0} aria-label={title}>
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
