/**
 * Prints the closing line of script/test: `N passed, M failed, K skipped`. Arguments: the number of failed checks,
 * vitest's report, and the report of the second try, if any. Names skipped tests and those that needed the second try
 * before that line.
 */
import { failuresIn, readReport } from './report.ts';

const [checksFailed = '0', firstPath = '', secondPath] = process.argv.slice(2);
const first = readReport(firstPath);
if (!first) {
  console.log('0 passed, 1 failed, 0 skipped');
  process.exit(1);
}
const again = new Map((secondPath ? (readReport(secondPath) ?? []) : []).map((it) => [it.name, it]));
const files = first.map((it) => again.get(it.name) ?? it);
const tests = files.flatMap((it) => it.assertionResults);
const passed = tests.filter(({ status }) => status === 'passed');
const skipped = tests.filter(({ status }) => status !== 'passed' && status !== 'failed');
const failed = files.reduce((sum, it) => sum + failuresIn(it), Number(checksFailed));
const passedNames = new Set(passed.map((it) => it.fullName));
for (const { status, fullName } of first.flatMap((it) => it.assertionResults))
  if (status === 'failed' && passedNames.has(fullName)) console.log(`passed at the second try only: ${fullName}`);
for (const { fullName } of skipped) console.log(`skipped: ${fullName}`);
console.log(`${passed.length} passed, ${failed} failed, ${skipped.length} skipped`);
process.exitCode = failed > 0 || passed.length === 0 ? 1 : 0;
