/**
 * Ends script/test: prints the failed and skipped tests, the slowest files, the time and the daemons that were started,
 * and last `N passed, N failed, N skipped`. Arguments: the number of failed checks, vitest's report, that of the files
 * that ran once more, seconds of time and of processor time, and the file with one byte for each daemon that a test started.
 * With `--failed REPORT` it prints the files to run once more instead.
 */
import { existsSync, readFileSync, statSync } from 'node:fs';
import { relative } from 'node:path';

interface FileReport {
  /** Path of the test file. */
  readonly name: string;
  readonly status: string;
  readonly startTime: number;
  readonly endTime: number;
  /** Why the file could not be loaded or set up. */
  readonly message?: string;
  readonly assertionResults: readonly {
    readonly status: string;
    readonly fullName: string;
    readonly failureMessages?: readonly string[];
  }[];
}

const SLOWEST = 20;
/** A few failures may come from a busy machine; more come from the change. */
const AGAIN_MAX = 30;

const [checksFailed = '0', report = '', again = '', seconds = '0', processor = '0', starts = ''] =
  process.argv.slice(2);

/** How many tests of a file failed; a file that could not be loaded has no tests, and counts as one. */
function failuresIn({ status, assertionResults }: FileReport): number {
  const failed = assertionResults.filter((it) => it.status === 'failed').length;
  return failed === 0 && status === 'failed' ? 1 : failed;
}

const tellFailure = (what: string, why = ''): void => console.log(`failed: ${what}: ${why.split('\n', 1)[0]}`);

const secondsOf = ({ startTime, endTime }: FileReport): number => (endTime - startTime) / 1000;

const read = (path: string): FileReport[] =>
  existsSync(path) ? (JSON.parse(readFileSync(path, 'utf8')) as { testResults: FileReport[] }).testResults : [];

if (checksFailed === '--failed') {
  const failed = read(report).filter((it) => failuresIn(it) > 0);
  if (failed.length <= AGAIN_MAX) for (const { name } of failed) console.log(name);
  process.exit(0);
}
if (!existsSync(report)) {
  // Nothing that the change reaches, or vitest ended before it wrote a report.
  console.log(`0 passed, ${Math.max(1, Number(checksFailed))} failed, 0 skipped`);
  process.exit(1);
}
const first = read(report);
const second = new Map(read(again).map((it) => [it.name, it]));
const files = first.map((it) => second.get(it.name) ?? it);
const tests = files.flatMap((it) => it.assertionResults);
const passed = tests.filter(({ status }) => status === 'passed');
const skipped = tests.filter(({ status }) => status !== 'passed' && status !== 'failed');
const failed = files.reduce((sum, it) => sum + failuresIn(it), Number(checksFailed));
for (const { name, status, message, assertionResults } of files) {
  const its = assertionResults.filter((it) => it.status === 'failed');
  for (const { fullName, failureMessages } of its)
    tellFailure(`${relative('.', name)} ${fullName}`, failureMessages?.[0]);
  if (its.length === 0 && status === 'failed') tellFailure(relative('.', name), message);
}
for (const { fullName } of skipped) console.log(`skipped: ${fullName}`);
const passedNames = new Set(passed.map((it) => it.fullName));
for (const { status, fullName } of first.flatMap((it) => it.assertionResults))
  if (status === 'failed' && passedNames.has(fullName)) console.log(`passed at the second try only: ${fullName}`);
console.log(`the ${SLOWEST} slowest files, in seconds (all of them: ${report}):`);
for (const it of files.toSorted((a, b) => secondsOf(b) - secondsOf(a)).slice(0, SLOWEST))
  console.log(`  ${secondsOf(it).toFixed(1).padStart(6)}  ${relative('.', it.name)}`);
const daemons = existsSync(starts) ? statSync(starts).size : 0;
console.log(`${seconds} s, ${processor} s of processor time, ${daemons} daemons started`);
console.log(`${passed.length} passed, ${failed} failed, ${skipped.length} skipped`);
process.exitCode = failed > 0 || passed.length === 0 ? 1 : 0;
