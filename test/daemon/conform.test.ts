/** The conformance kit with every client of this repository, and with clients that break the rules. */
import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { findProgram } from '../../src/sandbox/find-program.ts';
import { openDaemon, repository, temporaryDir } from '../support/daemon.ts';

const run = promisify(execFile);
const go = findProgram('go');
const python = ['/usr/bin/python3', findProgram('python3')].find((it) => it !== undefined && existsSync(it));
const folder = temporaryDir('conform');
afterAll(() => rmSync(folder, { recursive: true, force: true }));

interface Report {
  passed: number;
  failed: number;
  cases: { name: string; passed: boolean; problem?: string }[];
}

/** Runs the kit; the exit code tells whether all cases passed. */
async function conform(client: string[], { only = '', wait = '30', env = {} } = {}): Promise<Report> {
  const words = [join(repository, 'conformance/conform.ts'), '--json', '--only', only, '--wait', wait, '--', ...client];
  const ended = run(process.execPath, words, { env: { ...process.env, ...env }, maxBuffer: 2 ** 24 });
  const { stdout, code = 0 } = (await ended.catch((error: unknown) => error)) as { stdout: string; code?: number };
  const report = JSON.parse(stdout) as Report;
  expect(code).toBe(report.failed === 0 ? 0 : 1);
  return report;
}

const failures = ({ cases }: Report) => cases.filter((it) => !it.passed);
const fixture = (name: string) => [process.execPath, join(repository, 'test/fixtures', name)];

test('ringfence/client keeps every rule', async () => {
  const report = await conform(fixture('conform-client.ts'));
  expect(failures(report)).toEqual([]);
  expect(report.passed).toBeGreaterThanOrEqual(23);
});

test.skipIf(python === undefined)('the Python client keeps every rule (skipped where no Python is)', async () => {
  const env = { PYTHONPATH: join(repository, 'clients/python/src'), PYTHONDONTWRITEBYTECODE: '1' };
  const report = await conform([python as string, join(repository, 'clients/python/tests/conform.py')], { env });
  expect(failures(report)).toEqual([]);
});

test('a client that takes each read for a frame and has no bounds is told what it breaks', async () => {
  const report = await conform(fixture('naive-client.ts'), { wait: '4' });
  expect(failures(report).map((it) => it.name)).toEqual(
    expect.arrayContaining([
      'framing/many-in-one-piece',
      'framing/unknown-members',
      'limits/frame-too-large',
      'limits/request-too-large',
      'calls/cancel',
      'resume/continues',
      'resume/not-asked-for',
    ]),
  );
  expect(report.cases.filter((it) => it.passed).map((it) => it.name)).toEqual(
    expect.arrayContaining(['framing/hello', 'calls/failed-call']),
  );
}, 300_000);

describe('a program that is no client', () => {
  test.each([
    { what: 'is not there', client: ['/nonexistent/client'], problem: /ENOENT/ },
    { what: 'ends at once', client: ['/bin/sh', '-c', 'echo no >&2; exit 3'], problem: /the program ended with 3: no/ },
    {
      what: 'prints no JSON',
      client: ['/bin/sh', '-c', 'echo hello; sleep 30'],
      problem: /no JSON object with a name: hello/,
    },
  ])('the conform check of a program that $what fails with the reason', async ({ client, problem }) => {
    const report = await conform(client, { only: 'framing/hello' });
    expect(report).toMatchObject({ passed: 0, failed: 1, cases: [{ problem: expect.stringMatching(problem) }] });
  });
});

test('an unknown case and no client are errors of usage', async () => {
  const told = (...words: string[]) => run(process.execPath, [join(repository, 'conformance/conform.ts'), ...words]);
  await expect(told('--only', 'nothing', '--', 'true')).rejects.toMatchObject({
    code: 2,
    stderr: /no case begins with "nothing"; there are framing\/hello/,
  });
  await expect(told('--')).rejects.toMatchObject({ code: 2 });
});

describe.skipIf(go === undefined)('the Go client (skipped where Go is not installed)', () => {
  // All that Go keeps lies in the test's folder, and it fetches nothing.
  const env = { GOCACHE: join(folder, 'cache'), GOPATH: join(folder, 'path'), GOFLAGS: '-mod=mod', GOPROXY: 'off' };
  const source = join(repository, 'clients/go');
  const program = join(folder, 'conform-go');
  beforeAll(async () => {
    mkdirSync(folder, { recursive: true });
    await run(go as string, ['build', '-o', program, './conform'], {
      cwd: source,
      env: { ...process.env, ...env },
    });
  }, 180_000);

  test('keeps every rule', async () => {
    expect(failures(await conform([program]))).toEqual([]);
  });

  test('calls a real daemon, and its contexts cancel', async () => {
    await using daemon = await openDaemon();
    const options = { cwd: source, env: { ...process.env, ...env, RINGFENCE_SOCKET: daemon.socket } };
    const { stdout } = await run(go as string, ['test', '-count=1', '-v', '.'], options);
    expect(stdout.match(/^--- PASS/gm)).toHaveLength(4);
    expect(stdout).not.toContain('SKIP');
  }, 180_000);
});
