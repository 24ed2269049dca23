/**
 * Prints the test files that the uncommitted change reaches, one a line: those of the lanes without a daemon by vitest's
 * graph of imports, the others by test/changed.ts. What it leaves out is said on standard error.
 */
import { execFileSync } from 'node:child_process';
import { globSync } from 'node:fs';
import { reaches } from '../test/changed.ts';
import { filesOf, lanes } from '../test/lanes.ts';
import { nightly } from '../test/nightly.ts';

const lines = (program: string, args: readonly string[]): string[] =>
  execFileSync(program, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] })
    .split('\n')
    .filter((it) => it !== '');

const changed = [
  ...lines('git', ['diff', '--name-only', 'HEAD']),
  ...lines('git', ['ls-files', '--others', '--exclude-standard']),
];
const withDaemon = [lanes.daemon, lanes['own-daemon']].flatMap(filesOf).flatMap((it) => globSync(it));
const defaultLane = withDaemon.filter((it) => !Object.hasOwn(nightly, it));

/** The tests of the longest folder of the map that a file lies in. */
function testsOf(file: string): readonly string[] {
  if (withDaemon.includes(file)) return [file];
  const folders = Object.keys(reaches).filter((it) => file.startsWith(`${it}/`));
  const [nearest] = folders.sort((a, b) => b.length - a.length);
  return nearest === undefined ? [] : (reaches[nearest] ?? []).map((it) => `test/${it}.test.ts`);
}

const byGraph = lines('vitest', [
  'list',
  '--changed',
  '--filesOnly',
  '--project',
  'pure',
  '--project',
  'programs',
]).flatMap((it) => /test\/\S+\.test\.ts$/.exec(it)?.[0] ?? []);
const byMap = new Set(changed.flatMap(testsOf));
for (const it of new Set([...byGraph, ...byMap])) console.log(it);
const left = defaultLane.filter((it) => !byMap.has(it));
console.error(
  `not run: ${left.length} of ${defaultLane.length} files with a daemon, and the nightly lane: script/test [--all]`,
);
