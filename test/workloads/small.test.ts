/** The small tasks of table.ts give the same results inside a daemon as outside. `npm run workloads` runs all tasks, with their times. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { WORKLOADS } from './table.ts';
import { lacks, Workloads } from './workload.ts';

let workloads: Workloads;
beforeAll(async () => {
  workloads = await Workloads.start();
});
afterAll(() => workloads[Symbol.asyncDispose]());

const small = WORKLOADS.filter(({ size }) => size === 'small');
const missing = small.filter((it) => lacks(it) !== undefined);
for (const it of missing) console.warn(`skipped: ${it.name}: there is no ${lacks(it)} in the system's folders`);

test.each(small.filter((it) => !missing.includes(it)))(
  'the workload $name gives the same result inside as outside',
  { timeout: 120_000 },
  async (workload) => {
    const { bare, inside, bareMs, insideMs, warnings } = await workloads.compare(workload);
    console.info(
      `${workload.name}: ${Math.round(bareMs)} ms bare, ${Math.round(insideMs)} ms inside, ${(insideMs / bareMs).toFixed(2)} ×`,
    );
    expect(bare.exitCode).toBe(0);
    expect(inside).toEqual(bare);
    expect(warnings).toEqual([]);
  },
);
