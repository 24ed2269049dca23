/** Reports as prettier 3, ruff 0.16, black 26 and clippy 0.1.95 printed them. */
import { expect, test } from 'vitest';
import { type Linter, lintCommand, readReport } from '../../../../src/tools/code/workspace-programs.ts';

const read = (linter: Linter, report: string, { exitCode = 1, paths = ['.'] } = {}) => {
  const ran = { stdout: '', stderr: 'it said why', exitCode, durationMs: 1, report: Buffer.from(report) };
  return readReport(linter, ran as never, { workspace: '/w', paths });
};
const span = (file: string, isPrimary: boolean) =>
  JSON.stringify({ file_name: file, line_start: 3, column_start: 7, is_primary: isPrimary });
const compiled = (file: string) =>
  `{"reason":"compiler-message","message":{"level":"warning","message":"unused variable: \`x\`","code":{"code":"unused_variables"},"spans":[${span('other.rs', false)},${span(file, true)}]}}\n`;
const END = '{"reason":"build-finished","success":true}\n';

test('a formatter of the project gives one issue for each file that it would change', () => {
  expect(read('prettier', 'src/a.js\nsrc/b.js\n').map((it) => it.file)).toEqual(['src/a.js', 'src/b.js']);
  expect(read('prettier', '', { exitCode: 0 })).toEqual([]);
  const diff = '--- /w/py/a.py\t2026-11-30 00:42:55+00:00\n+++ /w/py/a.py\t2026\n@@ -1,2 +1,3 @@\n-x   = 1\n';
  expect(read('black', diff)).toMatchObject([{ file: 'py/a.py', rule: 'black/format', fixable: true }]);
});

test.each([
  ['prettier', '', 2],
  ['black', '', 123],
  ['ruff', 'error: no such option', 2],
  ['clippy', compiled('src/main.rs'), 101],
] as const)('a run of %s that looked at nothing, or was cut, is no clean result', (linter, report, exitCode) => {
  expect(() => read(linter, report, { exitCode })).toThrow(`${linter} ended with ${exitCode} and gave no report`);
});

test('ruff and clippy give issues with their places', () => {
  const found = { code: 'I001', filename: '/w/py/a.py', location: { row: 1, column: 2 }, message: 'Unsorted', fix: {} };
  expect(read('ruff', JSON.stringify([found]))).toMatchObject([
    { file: 'py/a.py', line: 1, column: 2, rule: 'I001', fixable: true },
  ]);
  const issue = { file: 'src/main.rs', line: 3, column: 7, rule: 'unused_variables', severity: 'warning' };
  expect(read('clippy', compiled('src/main.rs') + END)).toMatchObject([issue]);
});

test('clippy looks at the whole workspace, and issues outside of the paths are left out', () => {
  expect(lintCommand('clippy', ['src'])).toBe('cargo clippy --quiet --message-format=json');
  const report = compiled('src/main.rs') + compiled('srcs/main.rs') + END;
  expect(read('clippy', report, { paths: ['src'] }).map((it) => it.file)).toEqual(['src/main.rs']);
});
