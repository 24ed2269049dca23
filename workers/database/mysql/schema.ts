/** Statements of ours that read the tables of the connection's database, a row for each column. */

/** Both parameters name a table, or are empty. */
export const TABLES = `
  SELECT c.table_name AS \`table\`, IF(t.table_type LIKE '%VIEW', 'view', 'table') AS kind, c.column_name AS \`column\`,
    c.column_type AS type, CAST(c.is_nullable = 'NO' AS SIGNED) AS notNull,
    CAST(COALESCE(k.ordinal_position, 0) AS SIGNED) AS primaryKey, LEFT(c.column_default, 200) AS \`default\`,
    (SELECT CONCAT(f.referenced_table_name, '(', f.referenced_column_name, ')')
      FROM information_schema.key_column_usage f WHERE f.table_schema = c.table_schema AND f.table_name = c.table_name
      AND f.column_name = c.column_name AND f.referenced_table_name IS NOT NULL LIMIT 1) AS \`references\`
  FROM information_schema.columns c
  JOIN information_schema.tables t ON t.table_schema = c.table_schema AND t.table_name = c.table_name
  LEFT JOIN information_schema.key_column_usage k ON k.table_schema = c.table_schema AND k.table_name = c.table_name
    AND k.column_name = c.column_name AND k.constraint_name = 'PRIMARY'
  WHERE c.table_schema = DATABASE() AND (? = '' OR c.table_name = ?)
  ORDER BY c.table_name, c.ordinal_position`;

/** Table, name, whether unique, and the columns with NUL bytes between them. */
export const INDEXES = `
  SELECT table_name, index_name, CAST(MAX(non_unique) = 0 AS SIGNED),
    GROUP_CONCAT(column_name ORDER BY seq_in_index SEPARATOR '\\0')
  FROM information_schema.statistics WHERE table_schema = DATABASE() AND (? = '' OR table_name = ?)
  GROUP BY table_name, index_name ORDER BY table_name, index_name`;
