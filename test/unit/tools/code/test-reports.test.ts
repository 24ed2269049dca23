/** Reports of test runners that this machine lacks, or that need a package registry: texts in the forms that their versions write. */
import { describe, expect, test } from 'vitest';
import { readTestReport } from '../../../../src/tools/code/test-reports.ts';
import { testCommand } from '../../../../src/tools/code/test-runners.ts';

const lines = (...of: object[]) => of.map((it) => JSON.stringify(it)).join('\n');

describe('a fixture of the form of', () => {
  test('go 1.22: go test -json', () => {
    const at = { Package: 'm/p' };
    const report = lines(
      { ...at, Action: 'run', Test: 'TestA' },
      { ...at, Action: 'pass', Test: 'TestA', Elapsed: 0 },
      { ...at, Action: 'output', Test: 'TestB', Output: '=== RUN   TestB\n' },
      { ...at, Action: 'output', Test: 'TestB', Output: '    p_test.go:9: got 2, want 3\n' },
      { ...at, Action: 'fail', Test: 'TestB', Elapsed: 0 },
      { ...at, Action: 'skip', Test: 'TestC', Elapsed: 0 },
      { ...at, Action: 'fail', Elapsed: 0.1 },
      { Package: 'm/broken', Action: 'output', Output: './b.go:3:1: syntax error\n' },
      { Package: 'm/broken', Action: 'fail' },
    );
    expect(readTestReport('go', report, '/ws')).toMatchObject({
      ...{ passed: 1, failed: 2, skipped: 1 },
      failures: [
        { name: 'm/p.TestB', file: 'p_test.go', line: 9, message: expect.stringContaining('got 2, want 3') },
        { name: 'm/broken', message: './b.go:3:1: syntax error' },
      ],
    });
  });

  test('cargo 1.80: the text of libtest', () => {
    const report = `running 3 tests
test tests::good ... ok
test tests::slow ... ignored
test tests::bad ... FAILED

failures:

---- tests::bad stdout ----
thread 'tests::bad' panicked at src/lib.rs:12:9:
assertion \`left == right\` failed

failures:
    tests::bad

test result: FAILED. 1 passed; 1 failed; 1 ignored
`;
    expect(readTestReport('cargo', report, '/ws')).toMatchObject({
      ...{ passed: 1, failed: 1, skipped: 1 },
      failures: [{ name: 'tests::bad', file: 'src/lib.rs', line: 12 }],
    });
  });

  test('jest 30: --json', () => {
    const message =
      'Error: expect(received).toBe(expected)\n\nExpected: 3\nReceived: 2\n    at Object.<anonymous> (/ws/a.test.js:4:17)';
    const assertions = [
      { fullName: 'g a', status: 'passed', failureMessages: [] },
      { fullName: 'g b', status: 'failed', failureMessages: [message], location: { line: 3, column: 3 } },
      { fullName: 'g c', status: 'pending', failureMessages: [] },
    ];
    const report = JSON.stringify({
      testResults: [{ name: '/ws/a.test.js', status: 'failed', assertionResults: assertions }],
    });
    expect(readTestReport('jest', report, '/ws')).toMatchObject({
      ...{ passed: 1, failed: 1, skipped: 1 },
      failures: [{ name: 'g b', file: 'a.test.js', line: 3, expected: '3', actual: '2' }],
    });
  });

  test('pytest 9: --junitxml', () => {
    const report = `<?xml version="1.0" encoding="utf-8"?><testsuites name="pytest tests"><testsuite name="pytest" errors="0" failures="1" skipped="1" tests="3">
<testcase classname="test_a" name="test_good" time="0.001" /><testcase classname="test_a" name="test_bad[&lt;x&gt;]" time="0.001"><failure message="assert 2 == 3">def test_bad():
&gt;       assert 1 + 1 == 3
E       assert 2 == 3

test_a.py:5: AssertionError</failure></testcase><testcase classname="test_a" name="test_skipped" time="0"><skipped type="pytest.skip" message="no">x</skipped></testcase></testsuite></testsuites>`;
    expect(readTestReport('pytest', report, '/ws')).toMatchObject({
      ...{ passed: 1, failed: 1, skipped: 1 },
      failures: [{ name: 'test_a test_bad[<x>]', file: 'test_a.py', line: 5 }],
    });
  });
});

test.each([
  ['vitest', '{"testResults": ['],
  ['node', '<testsuites><testcase name="a"/>'],
  ['go', 'panic: no'],
  ['cargo', 'error: could not compile'],
] as const)('a report of %s that was cut, or is none, is no report', (runner, text) => {
  expect(readTestReport(runner, text, '/ws')).toBeUndefined();
});

test('paths and filters are words of the command line, whatever they hold', () => {
  const command = testCommand('node', { paths: ["it's; rm -rf .js"], filter: '$(id)', onlyChanged: false });
  expect(command).toContain("'--test-name-pattern=$(id)' 'it'\\''s; rm -rf .js'");
});
