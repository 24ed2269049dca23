/** Statements of ours that read the tables of a database, a row for each column. */

/** Tables and views that the user may see, in the columns of database_schema. `$1` names one, or is null. */
export const TABLES = `
  SELECT CASE WHEN n.nspname = 'public' THEN c.relname ELSE n.nspname || '.' || c.relname END,
    CASE c.relkind WHEN 'v' THEN 'view' WHEN 'm' THEN 'materialized view' WHEN 'f' THEN 'foreign table' ELSE 'table' END,
    a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod), a.attnotnull::int,
    coalesce(pg_catalog.array_position(k.conkey, a.attnum), 0)::int,
    pg_catalog.left(pg_catalog.pg_get_expr(d.adbin, d.adrelid), 200),
    (SELECT f.confrelid::pg_catalog.regclass::text FROM pg_catalog.pg_constraint f
      WHERE f.conrelid = c.oid AND f.contype = 'f' AND a.attnum = ANY (f.conkey) ORDER BY f.oid LIMIT 1)
  FROM pg_catalog.pg_class c
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
  LEFT JOIN pg_catalog.pg_constraint k ON k.conrelid = c.oid AND k.contype = 'p'
  LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
  WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname NOT IN ('pg_catalog', 'information_schema')
    AND n.nspname NOT LIKE 'pg\\_toast%' AND n.nspname NOT LIKE 'pg\\_temp%'
    AND pg_catalog.has_table_privilege(c.oid, 'SELECT')
    AND ($1::text IS NULL OR c.relname = $1 OR n.nspname || '.' || c.relname = $1)
  ORDER BY n.nspname, c.relname, a.attnum`;

/** Indexes of these tables: table, name, whether unique, and the columns as a JSON array. `$2` bounds the columns. */
export const INDEXES = `
  SELECT CASE WHEN n.nspname = 'public' THEN c.relname ELSE n.nspname || '.' || c.relname END, i.relname,
    x.indisunique::int, (SELECT pg_catalog.json_agg(a.attname ORDER BY u.at)
      FROM pg_catalog.unnest(x.indkey::int2[]) WITH ORDINALITY u(attnum, at)
      LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = u.attnum AND u.attnum > 0
      WHERE u.at <= least(x.indnkeyatts, $2::int))
  FROM pg_catalog.pg_index x
  JOIN pg_catalog.pg_class c ON c.oid = x.indrelid
  JOIN pg_catalog.pg_class i ON i.oid = x.indexrelid
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  WHERE c.relkind IN ('r', 'p', 'm') AND n.nspname NOT IN ('pg_catalog', 'information_schema')
    AND n.nspname NOT LIKE 'pg\\_toast%' AND pg_catalog.has_table_privilege(c.oid, 'SELECT')
    AND ($1::text IS NULL OR c.relname = $1 OR n.nspname || '.' || c.relname = $1)
  ORDER BY n.nspname, c.relname, i.relname LIMIT $3::int`;

/**
 * Roles with rights beyond the database that the user has, or could take on inside of a statement by
 * set_config('role', …).
 */
export const ROLES = `
  SELECT rolname, CASE WHEN rolsuper THEN 'superuser' WHEN rolbypassrls THEN 'bypassrls'
    WHEN rolcreaterole THEN 'createrole' WHEN rolreplication THEN 'replication' ELSE 'built-in' END
  FROM pg_catalog.pg_roles
  WHERE pg_catalog.pg_has_role(session_user, oid, 'MEMBER')
    AND (rolsuper OR rolbypassrls OR rolcreaterole OR rolreplication OR rolname IN ('pg_read_server_files',
      'pg_write_server_files', 'pg_execute_server_program', 'pg_signal_backend', 'pg_create_subscription'))
  ORDER BY rolsuper DESC, rolname LIMIT 5`;

/** What bounds one transaction. */
export interface TransactionBounds {
  readonly statementMs: number;
  readonly lockMs: number;
  readonly idleMs: number;
  /** Memory for one sort or hash. */
  readonly sortKiB: number;
}

/**
 * Settings of one transaction: its bounds, and the forms of values. They are commands with numbers of ours in them, since
 * the server takes longer for set_config() with parameters, which it plans as a query.
 */
export function settingsOf({ statementMs, lockMs, idleMs, sortKiB }: TransactionBounds): string[] {
  return [
    `SET LOCAL statement_timeout = ${Math.ceil(statementMs)}`,
    `SET LOCAL lock_timeout = ${Math.ceil(lockMs)}`,
    `SET LOCAL idle_in_transaction_session_timeout = ${Math.ceil(idleMs)}`,
    `SET LOCAL work_mem = ${Math.ceil(sortKiB)}`,
    'SET LOCAL bytea_output = hex',
    "SET LOCAL DateStyle = 'ISO, YMD'",
    'SET LOCAL IntervalStyle = postgres',
    'SET LOCAL extra_float_digits = 1',
    'SET LOCAL row_security = on',
  ];
}

/** Names of types by identifier. */
export const TYPE_NAMES =
  'SELECT pg_catalog.format_type(id, NULL) FROM pg_catalog.unnest($1::oid[]) WITH ORDINALITY types(id, at) ORDER BY at';
