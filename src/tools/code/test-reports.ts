/** Reads the reports of test runners. Tests can write anything, so every field is looked at before it is used. */

import * as z from 'zod';
import { jsonOr } from '../../base/text/json.ts';
import { isRecord } from '../../base/text/values.ts';
import { readJUnit, type TestOutcome } from './junit.ts';
import type { Runner } from './test-runners.ts';

export const testFailure = z.strictObject({
  name: z.string(),
  file: z.string().optional(),
  line: z.int().optional(),
  message: z.string(),
  expected: z.string().optional(),
  actual: z.string().optional(),
});
export type TestFailure = z.output<typeof testFailure>;

export interface TestReport {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
  readonly failures: TestFailure[];
}

const MESSAGE_CHARS_MAX = 4_000;
const VALUE_CHARS_MAX = 500;

/** The report of a runner; undefined if the text is not a report. */
export function readTestReport(
  runner: Runner,
  text: string,
  { workspace, stderr = '' }: { readonly workspace: string; readonly stderr?: string },
): TestReport | undefined {
  const outcomes = READERS[runner](text, stderr);
  if (outcomes === undefined) return undefined;
  const countOf = (state: TestOutcome['state']) => outcomes.filter((it) => it.state === state).length;
  const failures = outcomes.filter((it) => it.state === 'failed').map((it) => toFailure(it, workspace));
  return { passed: countOf('passed'), failed: countOf('failed'), skipped: countOf('skipped'), failures };
}

/** `stderr` is what the runner printed beside its report. */
type Reader = (text: string, stderr: string) => TestOutcome[] | undefined;

const records = (it: unknown): Record<string, unknown>[] => (Array.isArray(it) ? it.filter(isRecord) : []);

/** The form of jest, which vitest writes too. */
const jest: Reader = (text) => {
  const said = jsonOr(text, undefined);
  if (!isRecord(said) || !Array.isArray(said.testResults)) return undefined;
  return records(said.testResults).flatMap((file): TestOutcome[] => {
    const path = typeof file.name === 'string' ? file.name : 'a file without a name';
    const tests = records(file.assertionResults).map((it): TestOutcome => {
      const messages = Array.isArray(it.failureMessages) ? it.failureMessages.map(String) : [];
      // The place where it failed is more than where the test begins.
      const isPlaced = messages.some((message) => message.includes(`${path}:`));
      const line =
        !isPlaced && isRecord(it.location) && typeof it.location.line === 'number' ? it.location.line : undefined;
      const name = typeof it.fullName === 'string' ? it.fullName : 'a test without a name';
      return { name, state: stateOf(it.status), file: path, line, message: messages.join('\n') };
    });
    // A file that could not be loaded has no tests, or none that failed.
    const isBroken = file.status === 'failed' && !tests.some((it) => it.state === 'failed');
    return isBroken
      ? [
          ...tests,
          { name: path, state: 'failed', file: path, message: typeof file.message === 'string' ? file.message : '' },
        ]
      : tests;
  });
};

const stateOf = (status: unknown): TestOutcome['state'] =>
  status === 'passed' ? 'passed' : status === 'failed' ? 'failed' : 'skipped';

/** The lines of `go test -json`; a package without failed tests that failed itself did not build, or crashed. */
const go: Reader = (text, stderr) => {
  const events = text.split('\n').flatMap(goEvent);
  if (events.length === 0) return undefined;
  const said = new Map<string, string>();
  const outcomes: TestOutcome[] = [];
  for (const { action, output, owner, test } of events) {
    const name = test === '' ? owner : `${owner}.${test}`;
    if (action === 'output') said.set(name, (said.get(name) ?? '') + output);
    const state = GO_STATES.get(action);
    if (state === undefined) continue;
    const message = said.get(name) ?? '';
    if (test !== '') outcomes.push({ name, state, message, ...goPosition(message) });
    else if (state === 'failed' && !outcomes.some((it) => it.state === 'failed' && it.name.startsWith(`${owner}.`)))
      outcomes.push({ name, state, message });
  }
  // Before 1.24, go tells that a package does not build outside of its JSON, and why on standard error.
  for (const [, name = ''] of text.matchAll(/^FAIL\t(\S+) \[(?:build|setup) failed\]$/gm)) {
    const message = (stderr.split(/^# /m).find((it) => it.startsWith(name)) ?? '').split('\n').slice(1).join('\n');
    const [, file, line] = /^(?:vet: )?([\w./-]+\.go):(\d+):/m.exec(message) ?? [];
    outcomes.push({ name, state: 'failed', message, ...(file !== undefined && { file, line: Number(line) }) });
  }
  return outcomes;
};

const GO_STATES: ReadonlyMap<string, TestOutcome['state']> = new Map([
  ['pass', 'passed'],
  ['fail', 'failed'],
  ['skip', 'skipped'],
]);

function goEvent(line: string): { action: string; output: string; owner: string; test: string }[] {
  const event = line.startsWith('{') ? jsonOr(line, undefined) : undefined;
  if (!isRecord(event) || typeof event.Action !== 'string') return [];
  const textOf = (it: unknown) => (typeof it === 'string' ? it : '');
  const [output, owner, test] = [event.Output, event.Package, event.Test].map(textOf) as [string, string, string];
  return [{ action: event.Action, output, owner, test }];
}

function goPosition(message: string): { file?: string; line?: number } {
  const found = /^\s+([\w./-]+_test\.go):(\d+)(?:: | \+0x)/m.exec(message);
  return found ? { file: found[1] as string, line: Number(found[2]) } : {};
}

/** The text of libtest, whose JSON is not stable yet. */
const cargo: Reader = (text) => {
  const results = resultLines(text);
  if (results.length === 0) return undefined;
  return results.map(({ named, state }): TestOutcome => {
    const name = named.replace(/ - should panic$/, '');
    const said = text.split(`---- ${name} stdout ----\n`)[1]?.split(/\n(?:---- |failures:\n)/)[0] ?? '';
    // Before 1.73, Rust tells the message first, in quotation marks.
    const at = /panicked at (?:'[\s\S]*?', )?([^\s:']+):(\d+):/.exec(said);
    const position = at ? { file: at[1], line: Number(at[2]) } : {};
    return {
      name,
      state: state === 'ok' ? 'passed' : state === 'FAILED' ? 'failed' : 'skipped',
      message: said,
      ...position,
    };
  });
};

/**
 * The lines of libtest with the result of a test. It says how many will come; what tests printed follows them, up to
 * the line of totals, and is skipped whatever it looks like.
 */
function resultLines(text: string): { named: string; state: string }[] {
  const found: { named: string; state: string }[] = [];
  let begin = 0;
  let end = 0;
  let isOpen = false;
  for (const line of text.split('\n')) {
    const [, count] = /^running (\d+) tests?$/.exec(line) ?? [];
    if (count !== undefined && (!isOpen || found.length < end)) {
      begin = found.length;
      end = begin + Number(count);
      isOpen = true;
    }
    if (!isOpen) continue;
    const [, named, state] = /^test (.+?) \.\.\. (ok|FAILED|ignored)\b/.exec(line) ?? [];
    if (named !== undefined && state !== undefined && found.length < end) found.push({ named, state });
    if (found.length === end && line.startsWith('test result: ') && line.includes(totalsOf(found.slice(begin))))
      isOpen = false;
  }
  return found;
}

function totalsOf(results: readonly { readonly state: string }[]): string {
  const count = (state: string) => results.filter((it) => it.state === state).length;
  return `${count('ok')} passed; ${count('FAILED')} failed; ${count('ignored')} ignored;`;
}

const READERS: Readonly<Record<Runner, Reader>> = {
  vitest: jest,
  jest,
  node: readJUnit,
  pytest: readJUnit,
  go,
  cargo,
};

function toFailure({ name, file, line, message = '' }: TestOutcome, workspace: string): TestFailure {
  const inside = (path: string) => (path.startsWith(`${workspace}/`) ? path.slice(workspace.length + 1) : path);
  const said = plain(message);
  const told = said.replaceAll(`${workspace}/`, '').trim();
  const path = file === undefined ? frameIn(said, workspace) : inside(file);
  const at = line ?? (path === undefined ? undefined : lineIn(told, path));
  return {
    name: name.replaceAll(`${workspace}/`, ''),
    file: path,
    line: at,
    message: told.slice(0, MESSAGE_CHARS_MAX).toWellFormed(),
    ...valueIn(told, 'expected', EXPECTED),
    ...valueIn(told, 'actual', ACTUAL),
  };
}

/** The first file of the workspace in a stack; node 20 names no other. */
function frameIn(said: string, workspace: string): string | undefined {
  const frames = [...said.matchAll(/(?:\(|at |file:\/\/)(\/[^\s():]+):\d+:\d+/g)].map(([, path = '']) => path);
  const own = frames.find((it) => it.startsWith(`${workspace}/`) && !it.includes('/node_modules/'));
  return own?.slice(workspace.length + 1);
}

/** The line of the file in a stack, or in pytest's `file.py:3: AssertionError`. */
function lineIn(message: string, path: string): number | undefined {
  const after = message.split(`${path}:`)[1];
  const line = after === undefined ? Number.NaN : Number.parseInt(after, 10);
  return Number.isNaN(line) ? undefined : line;
}

/** The forms of node:assert, jest, chai and pytest. */
const EXPECTED = [
  /^\s*expected: (.+?),?$/m,
  /^\s*Expected: (.+)$/m,
  /^AssertionError: expected .+? to (?:be|equal|deeply equal) (.+?)(?: \/\/.*)?$/m,
];
const ACTUAL = [
  /^\s*actual: (.+?),?$/m,
  /^\s*Received: (.+)$/m,
  /^AssertionError: expected (.+?) to (?:be|equal|deeply equal) /m,
];

function valueIn<K extends 'expected' | 'actual'>(message: string, key: K, forms: readonly RegExp[]) {
  const value = forms.map((it) => it.exec(message)?.[1]).find((it) => it !== undefined);
  return value === undefined ? {} : ({ [key]: value.slice(0, VALUE_CHARS_MAX) } as Record<K, string>);
}

/** Removes the escape sequences of colours. */
const plain = (text: string): string => text.replaceAll(new RegExp(`${String.fromCharCode(27)}\\[[0-9;]*m`, 'g'), '');
