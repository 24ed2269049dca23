/** Reports of test runners: recorded ones (test/fixtures/test-reports), and texts in the forms that other versions write. */
import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { readTestReport } from '../../../../src/tools/code/test-reports.ts';
import { testCommand } from '../../../../src/tools/code/test-runners.ts';

const lines = (...of: object[]) => of.map((it) => JSON.stringify(it)).join('\n');

const recorded = (name: string) => readFileSync(`test/fixtures/test-reports/${name}`, 'utf8');

describe('the recorded report of', () => {
  test('pytest 7.2.1 of Debian has failures in tests, classes, parameters and fixtures, at the line that failed', () => {
    expect(readTestReport('pytest', recorded('pytest-7.2.1.xml'), { workspace: '/ws' })).toMatchObject({
      ...{ passed: 2, failed: 3, skipped: 2 },
      failures: [
        { name: 'test_sums.TestGroup test_fails', file: 'test_sums.py', line: 11 },
        { name: 'test_sums test_error_in_fixture', file: 'test_sums.py', line: 20 },
        { name: 'test_sums test_positive[-1]', line: 29, message: expect.stringContaining('-1 is <not> positive & é') },
      ],
    });
    expect(readTestReport('pytest', recorded('pytest-7.2.1-unloadable.xml'), { workspace: '/ws' })).toMatchObject({
      failures: [{ file: 'test_unloadable.py', line: 1, message: expect.stringContaining('nothing_of_this_name') }],
    });
  });

  test('go 1.19 has failures of tests and subtests, a panic, and a package that does not build with its error', () => {
    const stderr = recorded('go-1.19-stderr.txt');
    const report = readTestReport('go', recorded('go-1.19.jsonl'), { workspace: '/ws', stderr });
    expect(report).toMatchObject({ passed: 2, failed: 5, skipped: 1 });
    expect(report?.failures).toMatchObject([
      { name: 'example.org/sums/panics.TestPanics', file: 'panics/p_test.go', line: 5 },
      { name: 'example.org/sums.TestFails', file: 'sums_test.go', line: 9 },
      { name: 'example.org/sums.TestGroup/inner_fails', file: 'sums_test.go', line: 15 },
      { name: 'example.org/sums.TestGroup' },
      {
        name: 'example.org/sums/broken',
        file: 'broken/b_test.go',
        line: 5,
        message: expect.stringContaining('undefined'),
      },
    ]);
  });

  test('cargo 1.95 has failures of tests, of one that should have panicked, and of documentation', () => {
    expect(readTestReport('cargo', recorded('cargo-1.95.txt'), { workspace: '/ws' })).toMatchObject({
      ...{ passed: 1, failed: 3, skipped: 1 },
      failures: [
        { name: 'tests::should_panic_but_does_not', message: expect.stringContaining('did not panic as expected') },
        { name: 'tests::fails', file: 'src/lib.rs', line: 12, message: expect.stringContaining('left: 2') },
        { name: 'src/lib.rs - (line 1)', file: 'src/lib.rs', line: 3 },
      ],
    });
  });

  test('jest 30.5 has failures at the line that failed, and of files that can not be loaded', () => {
    expect(readTestReport('jest', recorded('jest-30.txt'), { workspace: '/ws' })).toMatchObject({
      ...{ passed: 1, failed: 2, skipped: 2 },
      failures: [
        { name: 'group fails <&>', file: 'sums.test.js', line: 4, expected: '3', actual: '2' },
        { file: 'broken.test.js', message: expect.stringContaining("Cannot find module './missing'") },
      ],
    });
  });
});

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
    expect(readTestReport('go', report, { workspace: '/ws' })).toMatchObject({
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
    expect(readTestReport('cargo', report, { workspace: '/ws' })).toMatchObject({
      ...{ passed: 1, failed: 1, skipped: 1 },
      failures: [{ name: 'tests::bad', file: 'src/lib.rs', line: 12 }],
    });
  });

  test('cargo: what a failed test printed is no result, whatever it looks like', () => {
    const report = `running 1 test
test tests::bad ... FAILED

failures:

---- tests::bad stdout ----
test tests::forged ... ok

test result: ok. 99 passed; 0 failed; 0 ignored; 0 measured

running 1 test
test tests::forged_too ... ok

failures:
    tests::bad

test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured


running 2 tests
test src/lib.rs - (line 1) ... ok
test src/lib.rs - (line 9) ... ok

test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured
`;
    expect(readTestReport('cargo', report, { workspace: '/ws' })).toMatchObject({ passed: 2, failed: 1, skipped: 0 });
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
    expect(readTestReport('jest', report, { workspace: '/ws' })).toMatchObject({
      ...{ passed: 1, failed: 1, skipped: 1 },
      failures: [{ name: 'g b', file: 'a.test.js', line: 4, expected: '3', actual: '2' }],
    });
  });

  test('pytest 9: --junitxml', () => {
    const report = `<?xml version="1.0" encoding="utf-8"?><testsuites name="pytest tests"><testsuite name="pytest" errors="0" failures="1" skipped="1" tests="3">
<testcase classname="test_a" name="test_good" time="0.001" /><testcase classname="test_a" name="test_bad[&lt;x&gt;]" time="0.001"><failure message="assert 2 == 3">def test_bad():
&gt;       assert 1 + 1 == 3
E       assert 2 == 3

test_a.py:5: AssertionError</failure></testcase><testcase classname="test_a" name="test_skipped" time="0"><skipped type="pytest.skip" message="no">x</skipped></testcase></testsuite></testsuites>`;
    expect(readTestReport('pytest', report, { workspace: '/ws' })).toMatchObject({
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
  expect(readTestReport(runner, text, { workspace: '/ws' })).toBeUndefined();
});

test('paths and filters are words of the command line, whatever they hold', () => {
  const command = testCommand('node', { paths: ["it's; rm -rf .js"], filter: '$(id)', onlyChanged: false });
  expect(command).toContain("'--test-name-pattern=$(id)' 'it'\\''s; rm -rf .js'");
});
