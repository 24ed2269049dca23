// Runs the benches, each with its floor: `npm run bench -- --help`.
import { spawn } from 'node:child_process';
import { existsSync, rmSync } from 'node:fs';
import { loadavg } from 'node:os';
import { parseArgs } from 'node:util';
import { type Bench, Context, Daemons, type Figure } from './bench.ts';
import { measureBuilt } from './built.ts';
import { isReached, publish, shown, shownRatio } from './report.ts';
import {
  type BenchResult,
  here,
  latestResults,
  machine,
  movedSince,
  type Results,
  readBaseline,
  readJson,
  widenBaseline,
  writeResults,
} from './results.ts';

/** Files of subjects/, in the order of running and reporting. */
const BENCHES = [
  ...[
    'paced',
    'layers',
    'calls',
    'commands',
    'scale',
    'peers',
    'mcp',
    'flow',
    'faults',
    'floods',
    'ends',
    'decisions',
    'audit',
    'redaction',
    'openapi',
    'web',
    'databases',
    'database-servers',
  ],
  ...[
    'orchestration',
    'output',
    'search',
    'symbols',
    'graph',
    'code',
    'git',
    'clones',
    'edits',
    'undo',
    'shadow',
    'previews',
    'programs',
    'testing',
    'clients',
    'tasks',
    'fleet',
    'questions',
    'quarantine',
    'bare',
  ],
];

const HELP = `npm run bench -- [options]

  --small          everything in half a minute, with few rounds: whether it works, not how fast it is
  --long           with an audit log of 10⁷ entries: 7 GB of disk, and minutes
  --only NAME…     of: ${BENCHES.join(' ')}
  --compare        what moved beyond its noise since bench/baseline.json; exit code 1 where it is more than twice as slow
  --baseline       takes this run into bench/baseline.json
  --json FILE      writes the results there instead of into bench/results/
  --report         runs nothing: writes docs/benchmarks.md of the newest results in bench/results/`;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    small: { type: 'boolean', default: false },
    long: { type: 'boolean', default: false },
    only: { type: 'string', multiple: true },
    compare: { type: 'boolean', default: false },
    baseline: { type: 'boolean', default: false },
    json: { type: 'string' },
    report: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
});

/** Runs a bench in this process. */
async function runHere(name: string, daemons: Daemons): Promise<BenchResult> {
  const bench = ((await import(`./subjects/${name}.ts`)) as { default: Bench }).default;
  const { title, question } = bench;
  console.log(`\n${title} (${name}): ${question}`);
  const context = new Context(values, daemons);
  const from = performance.now();
  const load = loadavg()[0] as number;
  let failed: string | undefined;
  try {
    await bench.run(context);
  } catch (error) {
    failed = (error as Error).stack ?? String(error);
  }
  const { findings } = context;
  for (const it of findings.figures) console.log(toLine(it));
  for (const it of findings.says) console.log(it);
  for (const { name: what, reason } of findings.skipped) console.log(`not measured: ${what}, since ${reason}`);
  if (failed) console.log(`FAILED: ${failed}`);
  const seconds = Math.round((performance.now() - from) / 100) / 10;
  return { title, question, at: new Date().toISOString(), seconds, load, ...findings, ...(failed && { failed }) };
}

function toLine(it: Figure): string {
  const part = (name: 'first' | 'p95' | 'p99') => {
    const value = it[name];
    return value === undefined ? '' : `${name} ${shown({ value, unit: it.unit })} `;
  };
  const parts = `${part('first')}${part('p95')}${part('p99')}`;
  const over = it.over ? `× ${shownRatio(it.over.ratio)} of ${it.over.floor}` : '';
  const kib = it.allocatedKiB === undefined ? '' : `, ${it.allocatedKiB.toFixed(1)} KiB`;
  const goal = it.goal && !values.small ? (isReached(it) ? '  reached' : '  NOT REACHED') : '';
  return `  ${it.name.padEnd(64)} ${shown(it).padStart(12)}  ${parts.padEnd(15)}${over}${kib}${goal}`.trimEnd();
}

/** Runs a bench in a process of its own, so that no bench is affected by another's heap and compiled code. */
async function runApart(name: string): Promise<BenchResult> {
  const file = here(`results/.${name}-${process.pid}.json`);
  const child = spawn(
    process.execPath,
    [here('suite.ts'), '--only', name, '--json', file, ...(values.long ? ['--long'] : [])],
    { stdio: 'inherit' },
  );
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve));
  if (!existsSync(file)) throw new Error(`the bench ${name} ended with ${code}, without a result`);
  const { benches } = readJson<Results>(file);
  rmSync(file);
  return benches[name] as BenchResult;
}

/**
 * Reports changes from the baseline; false if a figure is worse, and stays worse when its bench runs again, which
 * rules out a busy machine.
 */
async function compare(results: Results, again: (name: string) => Promise<BenchResult>): Promise<boolean> {
  const baseline = readBaseline();
  const moved = movedSince(results, baseline);
  console.log(`\n${moved.length} ratios moved beyond their noise since bench/baseline.json`);
  for (const { name, before, now } of moved)
    console.log(`  ${name.padEnd(76)} ${shownRatio(before)} → ${shownRatio(now)}`);
  let worse = moved.filter((it) => it.isWorse);
  for (let time = 0; time < TIMES_AGAIN && worse.length > 0; time++) {
    const benches: Record<string, BenchResult> = {};
    for (const name of new Set(worse.map((it) => it.bench))) benches[name] = await again(name);
    const still = movedSince({ ...results, benches }, baseline).filter((it) => it.isWorse);
    worse = still.filter(({ name }) => worse.some((it) => it.name === name));
  }
  for (const { name, before, now } of worse) console.log(`WORSE: ${name}: ${shownRatio(before)} → ${shownRatio(now)}`);
  return worse.length === 0;
}

const TIMES_AGAIN = 3;

async function main(): Promise<boolean> {
  const names = values.only ? [...values.only, ...positionals] : BENCHES;
  const unknown = [...names, ...(values.only ? [] : positionals)].find((it) => !BENCHES.includes(it));
  if (unknown !== undefined || values.help) {
    console.log(unknown === undefined ? HELP : `there is no bench ${unknown}\n\n${HELP}`);
    return unknown === undefined;
  }
  if (values.report) {
    publish(ordered(latestResults()));
    return true;
  }
  await measureBuilt();
  const apart = !values.small && names.length > 1;
  const on = machine();
  console.log(Object.values(on).join(', '));
  await using daemons = new Daemons();
  const benches: Record<string, BenchResult> = {};
  const run = (name: string) => (apart ? runApart(name) : runHere(name, daemons));
  for (const name of names) benches[name] = await run(name);
  const results: Results = { form: values.small ? 'small' : 'full', machine: on, benches };
  if (values.json !== undefined || !values.small) writeResults(results, values.json);
  if (values.baseline) widenBaseline(results);
  const isWell = !Object.values(benches).some((it) => it.failed);
  return (!values.compare || (await compare(results, run))) && isWell;
}

const ordered = (results: Results): Results => ({
  ...results,
  benches: Object.fromEntries(
    [...BENCHES, 'soak'].flatMap((name) => (results.benches[name] ? [[name, results.benches[name]]] : [])),
  ),
});

process.exitCode = (await main()) ? 0 : 1;
