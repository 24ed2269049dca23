/**
 * Runs all tasks of test/workloads/table.ts, or those whose names contain an argument: prints a table, and exits with
 * 1 if a result differs.
 */
import { measureBuilt } from '../bench/built.ts';
import { WORKLOADS } from '../test/workloads/table.ts';
import { type Compared, lacks, Workloads } from '../test/workloads/workload.ts';

const wanted = process.argv.slice(2);
const chosen = WORKLOADS.filter(({ name }) => wanted.length === 0 || wanted.some((it) => name.includes(it)));

const differs = ({ bare, inside }: Compared): string[] =>
  (['exitCode', 'stdout', 'stderr', 'tree'] as const).filter((it) => bare[it] !== inside[it]);

await measureBuilt();
await using workloads = await Workloads.start();
console.log('| task | bare | inside | ratio | same |\n|---|---|---|---|---|');
for (const workload of chosen) {
  const missing = lacks(workload);
  if (missing !== undefined) {
    console.log(`| ${workload.name} | – | – | – | left out: no ${missing} |`);
    continue;
  }
  const compared = await workloads.compare(workload);
  const { bareMs, insideMs, warnings } = compared;
  const others = differs(compared);
  const verdict = others.length === 0 ? 'yes' : `no: ${others.join(', ')}`;
  const told = warnings.length > 0 ? ` (${warnings.join('; ')})` : '';
  const seconds = (ms: number) => `${(ms / 1000).toFixed(2)} s`;
  console.log(
    `| ${workload.name} | ${seconds(bareMs)} | ${seconds(insideMs)} | ${(insideMs / bareMs).toFixed(2)} | ${verdict}${told} |`,
  );
  if (others.length === 0) continue;
  process.exitCode = 1;
  for (const it of others)
    console.error(
      `${workload.name}: ${it}\n--- bare\n${compared.bare[it as 'stdout']}\n--- inside\n${compared.inside[it as 'stdout']}`,
    );
}
