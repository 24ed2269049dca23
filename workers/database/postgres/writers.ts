/** Functions of PostgreSQL that write past the end of a transaction that only reads: to its log, which no rollback takes back. */
import { Refused } from '../../sqlite/refusals.ts';

/** The log and large objects; then those that run SQL in a text, where no name is to be found. */
const WRITERS =
  `pg_logical_emit_message pg_log_standby_snapshot pg_create_restore_point pg_switch_wal pg_export_snapshot
  txid_current pg_current_xact_id lo_creat lo_create lo_from_bytea lo_import lo_open lo_put lo_truncate lo_truncate64 lo_unlink
  lowrite query_to_xml query_to_xmlschema query_to_xml_and_xmlschema cursor_to_xml ts_stat ts_rewrite dblink dblink_exec
  dblink_send_query dblink_connect dblink_connect_u dblink_open`.split(/\s+/);
const NAMED = new RegExp(String.raw`(?<![\w$])(?:${WRITERS.join('|')})(?![\w$])`, 'i');

/** Throws Refused for a statement of a reading connection that names such a function, also inside of a text. */
export function assertNoWriter(sql: string): void {
  const name = NAMED.exec(sql)?.[0];
  if (name !== undefined) throw new Refused('ACCESS_DENIED', `the connection only reads, and ${name} may write`);
  // Names can be written by code points.
  if (/\bu&"/i.test(sql))
    throw new Refused('ACCESS_DENIED', 'a reading connection takes no names by code points (U&"…")');
}
