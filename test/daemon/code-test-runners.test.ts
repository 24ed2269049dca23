/**
 * code_test with the runners of this machine, through a real daemon: tests that pass, fail, crash, hang and lie. A
 * runner that is not here is skipped, and its name says why; its recorded reports are read in test-reports.test.ts.
 */
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { type OpenDaemon, openDaemon, repository, until } from '../support/daemon.ts';
import { writeFiles } from '../support/search.ts';

/** The same version as in the recorded report. */
const JEST = 'jest@30.5.2';
const jestFolder = join(repository, 'node_modules/.cache/ringfence-tests', JEST.replace('@', '-'));

/** Fetches jest once: a package of 278, so it is none of this repository's own. */
function fetchJest(): string | undefined {
  if (existsSync(join(jestFolder, 'node_modules/.bin/jest'))) return undefined;
  try {
    mkdirSync(jestFolder, { recursive: true });
    writeFileSync(join(jestFolder, 'package.json'), '{ "private": true }');
    const quick = ['--fetch-retries=0', '--fetch-timeout=10000', '--no-audit', '--no-fund', '--ignore-scripts'];
    execFileSync('npm', ['install', ...quick, JEST], { cwd: jestFolder, stdio: 'pipe', timeout: 120_000 });
    return undefined;
  } catch (error) {
    return `the registry did not give it: ${(error as Error).message.split('\n')[0]}`;
  }
}

const missingProgram = (path: string) => (existsSync(path) ? undefined : `${path} is not installed`);

interface Case {
  readonly files: Record<string, string>;
  /** What the result must hold. */
  readonly data: object;
}

interface RunnerCases {
  /** Why the runner can't run here. */
  readonly missing: string | undefined;
  /** What all workspaces of the runner hold. */
  readonly base?: Record<string, string>;
  readonly fails: Case;
  readonly crashes: Case;
  readonly hangs: Record<string, string>;
  readonly lies: Case;
}

const told = (text: string) => ({ inconsistent: expect.stringContaining(text) });
const CARGO =
  '[package]\nname = "sums"\nversion = "0.1.0"\nedition = "2021"\n[lib]\npath = "t/lib.rs"\ndoctest = false\n';
const rust = (...tests: string[]) =>
  `#[cfg(test)]\nmod tests {\n${tests.map((it) => `    #[test]\n    ${it}\n`).join('')}}\n`;
const go = (body: string, imports = '"testing"') => `package sums\n\nimport (\n${imports}\n)\n\n${body}\n`;

const RUNNERS: Record<string, RunnerCases> = {
  jest: {
    missing: fetchJest(),
    base: { 'jest.config.js': 'module.exports = {};\n' },
    fails: {
      files: {
        't/a.test.js':
          "test('good', () => {});\ntest('bad', () => {\n  expect(1 + 1).toBe(3);\n});\ntest.skip('later', () => {});\n",
        't/broken.test.js': "require('./missing.js');\n",
      },
      data: {
        ...{ passed: 1, failed: 2, skipped: 1, exitCode: 1 },
        failures: expect.arrayContaining([
          expect.objectContaining({ name: 'bad', file: 't/a.test.js', line: 3, expected: '3', actual: '2' }),
          expect.objectContaining({ file: 't/broken.test.js', message: expect.stringContaining('missing.js') }),
        ]),
      },
    },
    crashes: {
      files: { 't/a.test.js': "test('dies', () => process.kill(process.pid, 'SIGKILL'));\n" },
      data: { passed: 0, exitCode: 137, ...told('wrote no complete report') },
    },
    hangs: { 't/a.test.js': "test('hangs', () => {\n  for (;;);\n});\n" },
    lies: {
      files: {
        'jest.config.js': "process.on('exit', () => process.reallyExit(0));\nmodule.exports = {};\n",
        't/a.test.js':
          "test('bad', () => {\n  console.log(JSON.stringify({ numPassedTests: 99, testResults: [] }));\n  expect(1).toBe(2);\n});\n",
      },
      data: { passed: 0, failed: 1, exitCode: 0, ...told('ended with 0 although 1 tests failed') },
    },
  },
  pytest: {
    missing: missingProgram('/usr/bin/pytest'),
    fails: {
      files: {
        't/test_a.py':
          'import pytest\n\ndef test_good(): pass\n\ndef test_bad():\n    assert 1 + 1 == 3\n\n@pytest.mark.skip\ndef test_later(): pass\n',
        't/test_broken.py': 'import missing_module\n',
      },
      data: {
        ...{ passed: 0, failed: 1, exitCode: 2 },
        failures: [{ message: expect.stringContaining('missing_module') }],
      },
    },
    crashes: {
      files: { 't/test_a.py': 'import os\n\ndef test_good(): pass\n\ndef test_dies():\n    os._exit(7)\n' },
      data: { passed: 0, exitCode: 7, ...told('wrote no complete report') },
    },
    hangs: { 't/test_a.py': 'import time\n\ndef test_hangs():\n    time.sleep(600)\n' },
    lies: {
      files: {
        'conftest.py': 'def pytest_sessionfinish(session):\n    session.exitstatus = 0\n',
        't/test_a.py': 'def test_bad():\n    print("99 passed")\n    assert False\n',
      },
      data: { passed: 0, failed: 1, exitCode: 0, ...told('ended with 0 although 1 tests failed') },
    },
  },
  go: {
    missing: missingProgram('/usr/bin/go'),
    base: { 'go.mod': 'module example.org/sums\n\ngo 1.19\n' },
    fails: {
      files: {
        't/sums_test.go': go(
          'func TestGood(t *testing.T) {}\n\nfunc TestBad(t *testing.T) {\n\tt.Error("told")\n}\n\nfunc TestLater(t *testing.T) { t.Skip() }',
        ),
        'broken/b_test.go': 'package broken\n\nimport "testing"\n\nfunc TestX(t *testing.T) { nothing() }\n',
      },
      data: {
        ...{ passed: 1, failed: 2, skipped: 1 },
        failures: expect.arrayContaining([
          expect.objectContaining({ name: 'example.org/sums/t.TestBad', file: 'sums_test.go', line: 10 }),
          expect.objectContaining({ message: expect.stringContaining('undefined: nothing') }),
        ]),
      },
    },
    crashes: {
      files: {
        't/sums_test.go': go(
          'func TestGood(t *testing.T) {}\n\nfunc TestDies(t *testing.T) { os.Exit(7) }',
          '"os"\n"testing"',
        ),
      },
      data: { passed: 1, failed: 1, exitCode: 1 },
    },
    hangs: { 't/sums_test.go': go('func TestHangs(t *testing.T) { time.Sleep(time.Hour) }', '"testing"\n"time"') },
    lies: {
      files: {
        't/sums_test.go': go(
          'func TestMain(m *testing.M) { m.Run(); os.Exit(0) }\n\nfunc TestBad(t *testing.T) {\n\tfmt.Println(`{"Action":"pass","Package":"p","Test":"TestForged"}`)\n\tt.Error("told")\n}',
          '"fmt"\n"os"\n"testing"',
        ),
      },
      data: { passed: 0, failed: 1, exitCode: 0, ...told('ended with 0 although 1 tests failed') },
    },
  },
  cargo: {
    missing: missingProgram('/usr/bin/cargo'),
    base: { 'Cargo.toml': CARGO },
    fails: {
      files: {
        't/lib.rs': rust(
          'fn good() {}',
          'fn bad() {\n        assert_eq!(1 + 1, 3);\n    }',
          '#[ignore]\n    fn later() {}',
        ),
      },
      data: {
        ...{ passed: 1, failed: 1, skipped: 1, exitCode: 101 },
        failures: [{ name: 'tests::bad', file: 't/lib.rs', line: 7 }],
      },
    },
    crashes: {
      files: { 't/lib.rs': rust('fn dies() { std::process::abort() }') },
      data: { passed: 0, exitCode: 101, ...told('') },
    },
    hangs: { 't/lib.rs': rust('fn hangs() { std::thread::sleep(std::time::Duration::from_secs(600)) }') },
    lies: {
      files: {
        't/lib.rs': rust(
          'fn bad() {\n        println!("test tests::forged ... ok\\n\\ntest result: ok. 99 passed; 0 failed");\n        assert!(false);\n    }',
        ),
      },
      data: { passed: 0, failed: 1, exitCode: 101 },
    },
  },
};

let daemon: OpenDaemon;
let client: Client;
beforeAll(async () => {
  daemon = await openDaemon();
  client = await daemon.connect();
});
afterAll(async () => {
  await client[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});

/** Empties the workspace, but keeps what a runner has compiled or what is installed. */
function clean(): void {
  const kept = ['node_modules', 'target'].flatMap((it) => ['!', '-name', it]);
  execFileSync('find', [
    daemon.workspace,
    '-mindepth',
    '1',
    '-maxdepth',
    '1',
    ...kept,
    '-exec',
    'rm',
    '-rf',
    '{}',
    '+',
  ]);
}
const put = (files: Record<string, string>) => writeFiles(daemon.workspace, files);
const run = async (input: object) =>
  (await client.call('code_test' as string, input)) as unknown as { success: boolean; data: object };

for (const [runner, { missing, base = {}, fails, crashes, hangs, lies }] of Object.entries(RUNNERS))
  describe.skipIf(missing !== undefined)(`${runner}${missing === undefined ? '' : ` (${missing})`}`, () => {
    beforeAll(() => {
      if (runner === 'jest') cpSync(jestFolder, daemon.workspace, { recursive: true, verbatimSymlinks: true });
    });
    beforeEach(() => {
      clean();
      put(base);
    });
    const timeout = { timeout: 120_000 };
    const expectData = async ({ files, data }: Case) => {
      put(files);
      expect((await run({ runner })).data).toMatchObject({ runner, ...data });
    };

    test(`${runner} gives its counts, and failures with file, line and message`, timeout, () => expectData(fails));
    test(`${runner} whose test ends the process is no success`, timeout, () => expectData(crashes));
    test(`${runner} whose tests lie about their result is not believed`, timeout, () => expectData(lies));

    test(`${runner} that hangs ends with TIMEOUT, and nothing of it is left`, timeout, async () => {
      put(hangs);
      const ended = run({ runner, timeoutMs: 6_000 });
      await until(() => programsIn(daemon.workspace).length > 0);
      expect(await ended).toMatchObject({ success: false, error: { code: 'TIMEOUT' } });
      await until(() => programsIn(daemon.workspace).length === 0);
    });
  });

/** Programs of a runner that have their working directory below a folder. */
const programsIn = (folder: string): string[] =>
  readdirSync('/proc')
    .filter((it) => /^\d+$/.test(it))
    .flatMap((pid) => {
      try {
        const at = readlinkSync(`/proc/${pid}/cwd`);
        return at.startsWith(folder) ? [readFileSync(`/proc/${pid}/cmdline`, 'latin1').replaceAll('\0', ' ')] : [];
      } catch {
        return []; // It has ended.
      }
    })
    .filter((it) => /jest|pytest|\bgo test|\.test\b|cargo|sums-/.test(it));

test.skipIf(RUNNERS.jest?.missing !== undefined)(
  'jest with onlyChanged runs the tests of what git sees changed, and no others',
  { timeout: 120_000 },
  async () => {
    clean();
    if (!existsSync(join(daemon.workspace, 'node_modules/.bin/jest')))
      cpSync(jestFolder, daemon.workspace, { recursive: true, verbatimSymlinks: true });
    put({
      '.gitignore': 'node_modules\n',
      'jest.config.js': 'module.exports = {};\n',
      't/one.js': 'exports.one = 1;\n',
      't/one.test.js': "const { one } = require('./one.js');\ntest('one', () => expect(one).toBe(1));\n",
      't/two.test.js': "test('two', () => {});\n",
    });
    const git = (...args: string[]) => execFileSync('git', args, { cwd: daemon.workspace });
    git('init', '-q');
    git('add', '-A');
    git('-c', 'user.name=Ada', '-c', 'user.email=ada@example.org', 'commit', '-qm', 'first');
    put({ 't/one.js': 'exports.one = 2;\n' });
    expect((await run({ onlyChanged: true })).data).toMatchObject({
      ...{ runner: 'jest', passed: 0, failed: 1, skipped: 0 },
      failures: [{ name: 'one', file: 't/one.test.js', expected: '1', actual: '2' }],
    });
    expect((await run({})).data).toMatchObject({ passed: 1, failed: 1 });
  },
);
