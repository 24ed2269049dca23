/** One word of a command line, whatever is in it. */
const quoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`;
const words = (...them) => them.map(quoted).join(' ');

const PYTHON = `
import json, sqlite3, sys, urllib.parse
db = sqlite3.connect("file:" + urllib.parse.quote(sys.argv[1]) + "?mode=ro", uri=True)
db.row_factory = sqlite3.Row
print(json.dumps([dict(row) for row in db.execute(sys.argv[2]).fetchmany(1001)]))
`;

const NODE = `
const { DatabaseSync } = require("node:sqlite");
const [file, sql] = process.argv.slice(1);
const rows = [];
for (const row of new DatabaseSync(file, { readOnly: true }).prepare(sql).iterate()) if (rows.push(row) > 1000) break;
console.log(JSON.stringify(rows));
`;

/** What can read a SQLite file, in the order in which it is tried; each opens it read-only. `-safe` takes no dot commands. */
export const programs = [
  { name: 'sqlite3', command: (file, sql) => words('sqlite3', '-safe', '-readonly', '-json', file, sql) },
  { name: 'python3', command: (file, sql) => words('python3', '-c', PYTHON, file, sql) },
  { name: 'node', command: (file, sql) => words('node', '--no-warnings', '-e', NODE, file, sql) },
];
