/** Whether the servers of databases bound what a statement writes to their disk: nothing on our side can. */

import { showLine } from '../../base/text/shown-text.ts';
import type { Client } from '../../client/client.ts';
import type { UserDirs } from '../../daemon/user-dirs.ts';
import { type DoctorFinding, findingsOf } from '../doctor/machine.ts';
import { connectionsOf } from './database.ts';

const SQL = "SELECT current_setting('temp_file_limit'), current_user";
const ASK_MS = 5_000;

/** Asks each PostgreSQL connection; empty if there is none that answers. */
export async function judgeDatabases(
  client: Client,
  dirs: Pick<UserDirs, 'stateDir' | 'configFile'>,
): Promise<DoctorFinding[]> {
  const names = connectionsOf(dirs).flatMap((it) => ('kind' in it && it.kind === 'postgres' ? [it.name] : []));
  const roles = await Promise.all(names.map((name) => unboundedRole(client, name)));
  const known = roles.filter((it) => it !== undefined);
  if (known.length === 0) return [];
  const { ok, warning } = findingsOf('databases');
  const unbounded = [...new Set(known)].filter((it) => it !== '');
  if (unbounded.length === 0) return [ok(`${known.length} PostgreSQL roles have a bound of temporary files`)];
  const found = `temp_file_limit is -1 for ${unbounded.join(', ')}: one sort may fill the server's disk`;
  const fix = `As a superuser of the server: ALTER ROLE "${unbounded[0]?.replaceAll('"', '""')}" SET temp_file_limit = '1GB';`;
  return [warning(showLine(found), showLine(fix))];
}

/** The connection's role if it may write temporary files without end, else an empty text; undefined if nothing answers, or a person would be asked. */
async function unboundedRole(client: Client, connection: string): Promise<string | undefined> {
  const [tool, input] = ['database_query', { connection, sql: SQL }];
  // A check puts no question to a person.
  const judged = (await client.request('policy.explain', { tool, input }).catch(() => undefined)) as
    | { decision?: string }
    | undefined;
  if (judged?.decision !== 'allow') return undefined;
  const result = await client.call(tool, input, { timeoutMs: ASK_MS }).catch(() => undefined);
  if (!result?.success) return undefined;
  const [[limit, role] = []] = (result.data as { rows: unknown[][] }).rows;
  return limit === '-1' ? String(role) : '';
}
