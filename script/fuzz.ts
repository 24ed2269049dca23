/**
 * Tries changed inputs on everything that reads what strangers send: npm run fuzz -- --minutes 10 [--target codec]
 * [--seed N]. An input that breaks something is written to test/corpora/crashes, where the tests replay it; npm run
 * fuzz -- --replay FILE tries one such file. With --keep, small inputs of outcomes that were not reached before go to
 * test/corpora/<target>. Exit code 1 if anything broke.
 */
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { parseArgs } from 'node:util';
import { type FuzzFinding, fuzz } from '../test/fuzz/fuzz.ts';
import { CORPORA } from '../test/fuzz/input-slot.ts';
import { keep } from '../test/fuzz/kept.ts';
import { targetOf } from '../test/fuzz/replay.ts';
import { FUZZ_TARGETS } from '../test/fuzz/targets.ts';

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '1' },
    target: { type: 'string', multiple: true },
    seed: { type: 'string', default: `${Date.now() % 2 ** 31}` },
    replay: { type: 'string' },
    keep: { type: 'boolean', default: false },
  },
});

function keepCrash({ target, input, failure }: FuzzFinding): void {
  const folder = join(CORPORA, 'crashes');
  mkdirSync(folder, { recursive: true });
  const path = join(folder, `${target}-${createHash('sha256').update(input).digest('hex').slice(0, 12)}`);
  writeFileSync(path, input);
  console.log(
    `${target} broke: ${failure}\n  kept; try it again with: npm run fuzz -- --replay ${relative('.', path)}`,
  );
}

if (values.replay !== undefined) {
  const outcome = await targetOf(values.replay).run(readFileSync(values.replay));
  console.log(`nothing broke; outcome: ${outcome}`);
} else {
  const targets = values.target ?? Object.keys(FUZZ_TARGETS);
  const unknown = targets.filter((it) => !Object.hasOwn(FUZZ_TARGETS, it));
  const minutes = Number(values.minutes);
  if (unknown.length > 0)
    throw new Error(`no target ${unknown.join(', ')}; there are: ${Object.keys(FUZZ_TARGETS).join(', ')}`);
  if (!(minutes > 0)) throw new Error(`--minutes takes a number above 0, not ${values.minutes}`);
  const startedAtMs = Date.now();
  const endsAtMs = startedAtMs + minutes * 60_000;
  const { tried, counts, findings } = await fuzz({
    targets,
    seed: Number(values.seed),
    endsAtMs,
    onFinding: keepCrash,
  });
  for (const it of counts) {
    const kept = values.keep && findings.length === 0 ? `, ${await keep(it)} inputs kept` : '';
    console.log(`${it.target.padEnd(10)} ${it.cases} cases, ${it.outcomes.size} outcomes${kept}`);
  }
  const minutesTaken = Math.round((Date.now() - startedAtMs) / 6_000) / 10;
  console.log(`${tried} cases in ${minutesTaken} min with seed ${values.seed}: ${findings.length} findings`);
  if (findings.length > 0) process.exitCode = 1;
}
