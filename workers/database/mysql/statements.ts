/** Which statements of MySQL and MariaDB run, and whose. */
import { Refused } from '../../sqlite/refusals.ts';

const READING = ['select', 'with', 'values', 'table', '('];
const CHANGING = ['insert', 'update', 'delete', 'replace'];

/** Throws Refused for a statement that does not begin as a query or, if it may write, as a change of rows. */
export function assertStatement(sql: string, mayWrite: boolean): void {
  if (/\/\*(!|M!)/.test(sql)) throw new Refused('INPUT_INVALID', 'sql holds a comment that the server would run');
  const first = firstWord(sql);
  if (READING.includes(first) || (mayWrite && CHANGING.includes(first))) return;
  const what = CHANGING.includes(first)
    ? 'the connection only reads'
    : `the connection does not allow ${first || 'this'}`;
  throw new Refused('ACCESS_DENIED', what, 'A call takes one statement: SELECT, VALUES, TABLE or WITH.');
}

export const isChange = (sql: string): boolean => CHANGING.includes(firstWord(sql));

/** Throws Refused for a change: the server explains it only where it may write, and evaluates functions for that, which then write. */
export function assertExplained(sql: string): void {
  if (!isChange(sql)) return;
  throw new Refused(
    'UNSUPPORTED',
    'MySQL and MariaDB explain changes only where explaining could write',
    'Explain a SELECT with the same conditions.',
  );
}

/** The first word in lower case, or a parenthesis; comments before it are skipped. */
function firstWord(sql: string): string {
  const rest = sql.replace(/^(?:\s|--[^\n]*(?:\n|$)|#[^\n]*(?:\n|$)|\/\*[\s\S]*?\*\/)*/, '');
  return (/^(?:\(|\w{1,20})/.exec(rest)?.[0] ?? '').toLowerCase();
}

/**
 * Grants that reach beyond databases, as `SHOW GRANTS` writes them: a global one but USAGE, one on the database of the
 * server's users, and the right to act as another user.
 */
export function grantsBeyond(grants: readonly string[]): string[] {
  return grants.filter(
    (it) =>
      (/ ON \*\.\* TO /i.test(it) && !/^GRANT USAGE ON /i.test(it)) ||
      / ON [`"]?mysql[`"]?\./i.test(it) ||
      /^GRANT PROXY /i.test(it),
  );
}
