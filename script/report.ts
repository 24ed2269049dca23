/** Reads the parts of vitest's JSON reports that script/test needs. */
import { readFileSync } from 'node:fs';

interface FileReport {
  /** Path of the test file. */
  readonly name: string;
  readonly status: string;
  readonly assertionResults: readonly { readonly status: string; readonly fullName: string }[];
}

/** The files of a report; undefined if vitest ended before writing one. */
export function readReport(path: string): readonly FileReport[] | undefined {
  const text = readFileSync(path, 'utf8');
  return text === '' ? undefined : (JSON.parse(text) as { testResults: FileReport[] }).testResults;
}

/** How many tests of a file failed; a file that could not be loaded has no tests, and counts as one. */
export function failuresIn({ status, assertionResults }: FileReport): number {
  const failed = assertionResults.filter((it) => it.status === 'failed').length;
  return failed === 0 && status === 'failed' ? 1 : failed;
}
