/** `ringfence call` in scripts: its exit code is the command's, and its output is complete and streamed. */
import { once } from 'node:events';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { beginCli, endOf, runCli } from '../support/cli.ts';
import { type OpenDaemon, openDaemon, until } from '../support/daemon.ts';

let daemon: OpenDaemon;
beforeAll(async () => {
  // A log of 1 MiB, so that a test can exceed it.
  daemon = await openDaemon({ limits: { resultLogBytesMax: 1024 * 1024 } });
});
afterAll(() => daemon[Symbol.asyncDispose]());

const call = (command: string, ...more: string[]) =>
  runCli(daemon, ['call', 'terminal_execute', `command=${command}`, ...more]);

describe('the exit code', () => {
  test.each([
    ['exit 0', 0],
    ['exit 3', 3],
    ['exit 77', 77],
    ['kill -TERM $$', 143],
    ['kill -KILL $$', 137],
    ['exit 127', 127],
  ])('the exit code of `%s` is the command’s own: %i, with --json too', async (command, code) => {
    expect((await call(command)).code).toBe(code);
    const json = await call(command, '--json');
    expect([json.code, JSON.parse(json.stdout)]).toEqual([
      code,
      expect.objectContaining({ success: true, data: expect.objectContaining({ exitCode: code }) }),
    ]);
  });

  test('the exit code of a command whose program is not installed is 127, and a hint names the program', async () => {
    const { code, stderr, stdout } = await call('echo begun; nonexistent-program');
    expect({ code, stdout }).toEqual({ code: 127, stdout: 'begun\n' });
    expect(stderr).toContain('install the package that has `nonexistent-program`');
  });

  test('a script, a result asked for later and a failed batch exit with the code of their command', async () => {
    expect((await runCli(daemon, ['call', 'terminal_script', 'script=exit 9'])).code).toBe(9);
    const { stdout: id } = await call('exit 8', '--detach');
    expect((await runCli(daemon, ['result', id.trim(), '--wait'])).code).toBe(8);
    const calls = [0, 6, 7].map((code) => ({
      id: `c${code}`,
      tool: 'terminal_execute',
      input: { command: `exit ${code}` },
    }));
    expect((await runCli(daemon, ['batch', '-'], { stdin: JSON.stringify(calls) })).code).toBe(6);
  });

  test('the exit code of a failed call says how it failed, whatever its data holds', async () => {
    expect((await call('sleep 60', '--timeout', '200ms')).code).toBe(5);
    const value = 'code=return { exitCode: 9 }';
    expect((await runCli(daemon, ['call', 'code_run', value])).code).toBe(0);
  });
});

describe('output of a command', () => {
  test('comes as it is written, each stream on its own', async () => {
    const waits = 'echo out; echo err >&2; until [ -e go-on ]; do sleep 0.05; done; printf end';
    const child = beginCli(daemon, ['call', 'terminal_execute', `command=${waits}`]);
    const [out] = (await once(child.stdout, 'data')) as [Buffer];
    const [err] = (await once(child.stderr, 'data')) as [Buffer];
    expect([out.toString(), err.toString(), existsSync(join(daemon.workspace, 'go-on'))]).toEqual([
      'out\n',
      'err\n',
      false,
    ]);
    const rest = text(child.stdout);
    writeFileSync(join(daemon.workspace, 'go-on'), '');
    expect([await rest, await endOf(child)]).toEqual(['end', 0]);
  });

  test('output of a command is whole and byte for byte in a pipe, however long', async () => {
    const { code, stdout } = await call('seq 1 120000');
    const expected = `${Array.from({ length: 120_000 }, (_, at) => at + 1).join('\n')}\n`;
    expect(code).toBe(0);
    expect(stdout === expected).toBe(true);
  });

  test('output that is more than is kept ends without a hole, and standard error says what is missing', async () => {
    const { code, stdout, stderr } = await call('seq 1 400000');
    expect(code).toBe(0);
    const whole = `${Array.from({ length: 400_000 }, (_, at) => at + 1).join('\n')}\n`;
    expect(whole.startsWith(stdout)).toBe(true);
    expect(stdout.length).toBeGreaterThan(900_000);
    expect(stderr).toMatch(/ends after \d+ of \d+ bytes: .*resultLogBytesMax.*ringfence logs [0-9a-f-]{36}/);
  });

  test('output of a result asked for later is whole as well', async () => {
    const { stdout: id } = await call('seq 1 100000', '--detach');
    const { stdout } = await runCli(daemon, ['result', id.trim(), '--wait']);
    expect(stdout.split('\n').length).toBe(100_001);
    expect((await runCli(daemon, ['result', id.trim()])).stdout).toBe(stdout);
  });

  test('output beside --json is on standard error with --progress, and standard output has the result alone', async () => {
    const { stdout, stderr } = await call('echo early', '--progress', '--json');
    expect(stderr).toMatch(/in-progress\nearly\n/);
    expect(JSON.parse(stdout)).toMatchObject({ success: true });
  });

  test('output that its tool cut is reported as cut', async () => {
    writeFileSync(join(daemon.workspace, 'lines'), 'a\nb\nc\n');
    const { stdout, stderr } = await runCli(daemon, ['call', 'file_read', 'path=lines', 'maxLines=1']);
    expect([stdout, stderr]).toEqual(['a\n', expect.stringContaining('the result is truncated')]);
  });
});

test('every call prints its id, a failed one too', async () => {
  for (const path of ['lines', 'none'])
    expect((await runCli(daemon, ['call', 'file_read', `path=${path}`])).stderr).toMatch(/call [0-9a-f-]{36}$/m);
});

test('an interrupted call has printed what came, and its command is gone', async () => {
  const child = beginCli(daemon, ['call', 'terminal_execute', 'command=echo begun; touch begun; sleep 60']);
  let stdout = '';
  child.stdout.on('data', (chunk) => (stdout += chunk));
  await until(() => existsSync(join(daemon.workspace, 'begun')) && stdout === 'begun\n');
  child.kill('SIGINT');
  expect(await endOf(child)).toBe(130);
});
