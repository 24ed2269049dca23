// A question about data, answered by one program over the tools: the model sees the answer, and none of the rows.
import { createClient } from 'ringfence/client';

const [socket = '', workspace = process.cwd()] = process.argv.slice(2);
await using client = await createClient({ socket, workspace, name: 'data-analyst' });

/** What a model would write when asked: "Which customers spent most, and how large a share of all is theirs?" */
const code = `
const sql = "select customer, sum(cents)::integer as cents from 'orders.csv' group by customer order by cents desc";
const { rows } = await tools.database_query({ connection: 'sales', sql });
const all = rows.reduce((sum, [, cents]) => sum + cents, 0);
const best = rows.slice(0, input.top).map(([customer, cents]) => ({ customer, percent: Math.round((100 * cents) / all) }));
await tools.file_write({ path: 'report.md', content: best.map((it) => '- ' + it.customer + ': ' + it.percent + ' %').join('\\n') + '\\n' });
return { customers: rows.length, best };`;

const result = await client.call('code_run', { code, input: { top: 2 } });
if (!result.success) throw new Error(`${result.error.code}: ${result.error.message}`);
console.log(JSON.stringify((result.data as { value: unknown }).value));
