// Makes calls through a gateway while its nodes are killed and started again, and checks what became of each call:
// npm run soak:fleet -- --calls 10000 --kill-each 500. Exit code 1 if one ran twice, or if a client was told wrongly.
import { loadavg } from 'node:os';
import { parseArgs } from 'node:util';
import { noBus } from '../../test/support/fleet.ts';
import { runWithKills } from '../../test/support/fleet-kills.ts';
import { measureBuilt } from '../built.ts';

const { values } = parseArgs({
  options: { calls: { type: 'string', default: '10000' }, 'kill-each': { type: 'string', default: '500' } },
});
const [calls, killEach] = [Number(values.calls), Number(values['kill-each'])];
if (!(calls > 0 && killEach > 0)) throw new Error('--calls and --kill-each take a number above 0');
if (noBus !== undefined) throw new Error(noBus);
await measureBuilt();
const from = performance.now();
const { told, kills, doubled, wrong } = await runWithKills({ calls, killEach });
const seconds = Math.round((performance.now() - from) / 1000);
const counts = Object.entries(told).map(([name, count]) => `${name} ${count}`);
console.log(`${calls} calls, ${kills} kills, ${seconds} s, load ${loadavg()[0]?.toFixed(1)}: ${counts.join(', ')}`);
console.log(`run twice: ${doubled.length}; told wrongly: ${wrong.length}; not answered: ${told.unanswered ?? 0}`);
for (const it of [...doubled.map((id) => `${id} ran twice`), ...wrong]) console.log(`WRONG ${it}`);
if (doubled.length + wrong.length > 0) process.exitCode = 1;
