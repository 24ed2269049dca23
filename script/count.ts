// The closing line of script/test, from vitest's JSON report: `N passed, M failed, K skipped`; skipped ones are named before it.
import { readFileSync } from 'node:fs';

interface Report {
  success: boolean;
  numPassedTests: number;
  numFailedTests: number;
  numFailedTestSuites: number;
  testResults: {
    name: string;
    status: string;
    message: string;
    assertionResults: { status: string; fullName: string }[];
  }[];
}

const [file = '', checksFailed = '0'] = process.argv.slice(2);
const text = readFileSync(file, 'utf8');
if (text === '') {
  console.log('0 passed, 1 failed, 0 skipped');
  process.exit(1);
}
const report = JSON.parse(text) as Report;
const tests = report.testResults.flatMap((it) => it.assertionResults);
const skipped = tests.filter(({ status }) => status !== 'passed' && status !== 'failed');
for (const { fullName } of skipped) console.log(`skipped: ${fullName}`);
// A file that could not even be loaded has no tests to count, and is a failure all the same.
const unloaded = report.testResults.filter(
  (it) => it.status === 'failed' && it.assertionResults.every(({ status }) => status !== 'failed'),
);
const failed = report.numFailedTests + unloaded.length + Number(checksFailed);
console.log(`${report.numPassedTests} passed, ${failed} failed, ${skipped.length} skipped`);
process.exitCode = failed > 0 || report.numPassedTests === 0 ? 1 : 0;
