/** Test runners: how a workspace shows that it has one, its command line, and where its report comes from. */
import { ToolError } from '../../base/errors.ts';
import { asWord } from '../../base/paths.ts';
import { jsonOr } from '../../base/text/json.ts';
import { isRecord } from '../../base/text/values.ts';
import { holds } from '../context/file-presence.ts';
import type { ToolContext } from '../tool.ts';

export const RUNNERS = ['vitest', 'jest', 'node', 'pytest', 'go', 'cargo'] as const;
export type Runner = (typeof RUNNERS)[number];

export interface TestsToRun {
  readonly paths: readonly string[];
  readonly filter?: string | undefined;
  readonly onlyChanged: boolean;
}

/** Stands for a file in /tmp that each run makes for itself. */
export const REPORT = '/tmp/ringfence-tests';

/** The runner of a workspace, by what is installed and configured at its root; undefined if there is none. */
export function findRunner(ctx: ToolContext): Runner | undefined {
  const installed = (['vitest', 'jest'] as const).find((it) => holds(`node_modules/${it}/package.json`, ctx));
  if (installed) return installed;
  if (/\bnode\b.*--test\b/.test(testScript(ctx))) return 'node';
  if (['pytest.ini', 'conftest.py', 'tox.ini', 'pyproject.toml'].some((it) => holds(it, ctx))) return 'pytest';
  if (holds('go.mod', ctx)) return 'go';
  if (holds('Cargo.toml', ctx)) return 'cargo';
  return holds('package.json', ctx) ? 'node' : undefined;
}

function testScript(ctx: ToolContext): string {
  if (!holds('package.json', ctx)) return '';
  using file = ctx.open('package.json');
  // One that is being edited may be no JSON.
  const said = jsonOr(file.bytes().toString('utf8'), undefined);
  const script = isRecord(said) && isRecord(said.scripts) ? said.scripts.test : undefined;
  return typeof script === 'string' ? script : '';
}

interface RunnerSpec {
  words(tests: TestsToRun): string[];
  /** Whether the report is the command's standard output. */
  readonly isOnStdout?: boolean;
  readonly canSelectChanged?: boolean;
}

const option = (name: string, value: string | undefined): string[] => (value === undefined ? [] : [name, value]);

const RUNNER_SPECS: Readonly<Record<Runner, RunnerSpec>> = {
  vitest: {
    canSelectChanged: true,
    words: ({ paths, filter, onlyChanged }) => [
      ...['node_modules/.bin/vitest', 'run', '--reporter=default', '--reporter=json', `--outputFile.json=${REPORT}`],
      ...(onlyChanged ? ['--changed'] : []),
      ...option('-t', filter),
      ...paths,
    ],
  },
  jest: {
    canSelectChanged: true,
    words: ({ paths, filter, onlyChanged }) => [
      ...['node_modules/.bin/jest', '--json', `--outputFile=${REPORT}`, '--testLocationInResults'],
      ...(onlyChanged ? ['--onlyChanged'] : []),
      ...option('-t', filter),
      ...paths,
    ],
  },
  node: {
    words: ({ paths, filter }) => [
      ...['node', '--test', '--test-reporter=spec', '--test-reporter-destination=stdout'],
      ...['--test-reporter=junit', `--test-reporter-destination=${REPORT}`],
      ...(filter === undefined ? [] : [`--test-name-pattern=${filter}`]),
      ...paths,
    ],
  },
  pytest: {
    words: ({ paths, filter }) => ['pytest', `--junitxml=${REPORT}`, ...option('-k', filter), ...paths],
  },
  go: {
    isOnStdout: true,
    words: ({ paths, filter }) => [
      ...['go', 'test', '-json', ...option('-run', filter)],
      ...(paths.length > 0 ? paths.map((it) => (it.startsWith('.') ? it : `./${it}`)) : ['./...']),
    ],
  },
  cargo: {
    isOnStdout: true,
    words: ({ filter }) => ['cargo', 'test', '--no-fail-fast', ...(filter === undefined ? [] : ['--', filter])],
  },
};

/** The command line of a run. Paths never read as options, since the input refuses those that begin with `-`. */
export const testCommand = (runner: Runner, tests: TestsToRun): string =>
  RUNNER_SPECS[runner].words(tests).map(asWord).join(' ');

/** The report of a run as `CommandToRun.report` names it. */
export const reportOf = (runner: Runner): string => (RUNNER_SPECS[runner].isOnStdout ? '-' : REPORT);

/** Throws UNSUPPORTED for what a runner can't select. */
export function assertSelectable(runner: Runner, { paths, onlyChanged }: TestsToRun): void {
  if (onlyChanged && !RUNNER_SPECS[runner].canSelectChanged)
    throw new ToolError('UNSUPPORTED', `${runner} can not select the tests of changed files`, {
      suggestion: 'Name the tests in paths or filter.',
    });
  if (runner === 'cargo' && paths.length > 0)
    throw new ToolError('UNSUPPORTED', 'cargo selects tests by name, not by path', { suggestion: 'Use filter.' });
}
