/** The open sessions, with those that an agent has passed a part of its authority to below their parents. */
import type { OpenSession } from './status.ts';

interface Branch {
  readonly session: OpenSession;
  readonly depth: number;
}

/** Each session after its parent, with its depth. */
export function toTree(sessions: readonly OpenSession[]): Branch[] {
  const ids = new Set(sessions.map(({ sessionId }) => sessionId));
  const childrenOf = Map.groupBy(sessions, ({ parent }) => (parent !== undefined && ids.has(parent) ? parent : ''));
  const below = (id: string, depth: number): Branch[] =>
    (childrenOf.get(id) ?? []).flatMap((session) => [{ session, depth }, ...below(session.sessionId, depth + 1)]);
  return below('', 0);
}

export function SessionRows({ sessions }: { sessions: readonly OpenSession[] }) {
  return (
    <>
      {toTree(sessions).map(({ session: { sessionId, client, principal, role, workspace, mode, calls }, depth }) => (
        <tr key={sessionId}>
          <td>
            {depth > 0 && <span class="dim">{`${'  '.repeat(depth)}└ sub-agent `}</span>}
            {client}
          </td>
          <td>{principal}</td>
          <td>{mode ? `${role}, ${mode}` : role}</td>
          <td>
            <code>{workspace}</code>
          </td>
          <td>{calls}</td>
        </tr>
      ))}
    </>
  );
}
