/** Commands that misbehave: each ends at its bound and leaves nothing behind. */
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { commandCertificates } from '../../src/sandbox/etc/certificates.ts';
import { dataOf, processesWith, startDaemon, type TestDaemon, until } from '../support/daemon.ts';

let daemon: TestDaemon;
let client: Client;
beforeAll(async () => {
  daemon = await startDaemon({ limits: { commandOutputBytesMax: 4 * 1024 * 1024 } });
  client = await daemon.connect();
});
afterAll(async () => {
  await client[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});
const run = (command: string, input: object = {}) => client.call('terminal_execute', { command, ...input });

test('an exit code that is not 0 is a success, and a signal is told as shells tell it', async () => {
  expect(await dataOf(run('echo out; echo err >&2; exit 3'))).toMatchObject({
    stdout: 'out\n',
    stderr: 'err\n',
    exitCode: 3,
    timedOut: false,
  });
  expect(await dataOf(run('kill -KILL $$'))).toMatchObject({ exitCode: 137, signal: 'SIGKILL' });
});

describe('out of time', () => {
  test.each([
    ['ignores SIGTERM', "trap '' TERM; exec -a MARK sleep 60"],
    ['has left its session', 'setsid exec -a MARK sleep 60 & sleep 60'],
    ['left a grandchild that holds its output', "(bash -c 'exec -a MARK sleep 60' &) ; sleep 60"],
  ])('a command that %s is TIMEOUT with its output so far, and gone', async (fault, script) => {
    const mark = `marker-${fault.replaceAll(' ', '-')}`;
    const from = performance.now();
    const result = await run(`echo before; ${script.replace('MARK', mark)}`, { timeout: 400 });
    expect(performance.now() - from).toBeLessThan(400 + 1000);
    expect(result).toMatchObject({
      success: false,
      error: { code: 'TIMEOUT', category: 'TIMEOUT', details: { limit: 400, stdout: 'before\n' } },
      metadata: { resources: { verdict: 'timeout' } },
    });
    await until(() => processesWith(mark).length === 0, 1000);
  });

  test('a caller can narrow the time and not widen it', async () => {
    expect(
      await client.call('terminal_execute', { command: 'sleep 60', timeout: 200 }, { timeoutMs: 60_000 }),
    ).toMatchObject({ error: { code: 'TIMEOUT' } });
    expect(await client.call('terminal_execute', { command: 'sleep 60' }, { timeoutMs: 200 })).toMatchObject({
      error: { code: 'TIMEOUT' },
    });
  });
});

test('a background process that holds the output does not hold up the answer, and is gone with it', async () => {
  const from = performance.now();
  expect(await dataOf(run('(exec -a marker-background sleep 60) & echo done'))).toMatchObject({
    stdout: 'done\n',
    exitCode: 0,
  });
  expect(performance.now() - from).toBeLessThan(5000);
  await until(() => processesWith('marker-background').length === 0, 1000);
});

test('a cancelled command is CANCELLED and gone', async () => {
  const controller = new AbortController();
  const running = client.call(
    'terminal_execute',
    { command: 'exec -a marker-cancelled sleep 60' },
    { signal: controller.signal },
  );
  await until(() => processesWith('marker-cancelled').length > 0);
  controller.abort();
  expect(await running).toMatchObject({ success: false, error: { code: 'CANCELLED' } });
  await until(() => processesWith('marker-cancelled').length === 0, 1000);
});

test('a client that goes takes its commands with it', async () => {
  const other = await daemon.connect();
  other.call('terminal_execute', { command: 'exec -a marker-disconnected sleep 60' }).catch(() => {}); // The connection ends.
  await until(() => processesWith('marker-disconnected').length > 0);
  await other[Symbol.asyncDispose]();
  await until(() => processesWith('marker-disconnected').length === 0, 1000);
});

describe('output', () => {
  test('output over its share is cut in the middle, and says how much there was', async () => {
    const result = await run('seq 1 100000');
    const { stdout } = await dataOf(Promise.resolve(result));
    expect(stdout).toMatch(/^1\n2\n[\s\S]*… \d+ bytes left out …[\s\S]*\n99999\n100000\n$/);
    expect(stdout.length).toBeLessThan(33 * 1024);
    expect(result.metadata).toMatchObject({ truncated: { bytesTotal: 588_895 }, resources: { outputBytes: 588_895 } });
  });

  test('without end is OUTPUT_LIMIT', async () => {
    expect(await run('exec -a marker-endless yes')).toMatchObject({
      success: false,
      error: { code: 'OUTPUT_LIMIT', details: { limit: 4 * 1024 * 1024 } },
      metadata: { resources: { verdict: 'output' } },
    });
    await until(() => processesWith('marker-endless').length === 0, 1000);
  });

  test('a caller that asks for progress gets the output while the command runs', async () => {
    const running = client.call(
      'terminal_execute',
      { command: 'echo one; read -t 5 < <(:); echo two >&2' },
      { progress: true },
    );
    const seen: string[] = [];
    for await (const it of running)
      seen.push(it.kind === 'state' ? it.state.status : `${it.stream}:${Buffer.from(it.data).toString('utf8')}`);
    expect(seen.filter((it) => !it.includes(':'))).toEqual(['queued', 'in-progress', 'done']);
    expect(seen).toContain('stdout:one\n');
    expect(seen).toContain('stderr:two\n');
  });
});

describe('what a command is given', () => {
  test("a command's environment has a few fixed variables and those that its caller added", async () => {
    const { stdout } = await dataOf(run('env | cut -d= -f1 | sort', { env: { MINE: '1' } }));
    expect(
      stdout
        .trim()
        .split('\n')
        // Programs have different names for the address of the proxy.
        .filter((it) => !['_', 'PWD', 'SHLVL', 'OLDPWD'].includes(it) && !/proxy/i.test(it)),
    ).toEqual(
      [
        ...Object.keys(commandCertificates([])),
        'CI',
        'CURL_HOME',
        'GIT_CONFIG_COUNT',
        'GIT_CONFIG_GLOBAL',
        ...[0, 1, 2, 3].flatMap((it) => [`GIT_CONFIG_KEY_${it}`, `GIT_CONFIG_VALUE_${it}`]),
        'GIT_OPTIONAL_LOCKS',
        'HOME',
        'JAVA_TOOL_OPTIONS',
        'LANG',
        'MINE',
        'NO_UPDATE_NOTIFIER',
        'PATH',
        'TERM',
        'WGETRC',
        'XDG_CONFIG_HOME',
        'npm_config_update_notifier',
        'npm_config_userconfig',
      ].sort(),
    );
  });

  test('a library of the caller is never loaded into bubblewrap while that still has rights', async () => {
    writeFileSync(join(daemon.workspace, 'evil.so'), 'not a library');
    const { stdout, stderr } = await dataOf(
      run('/bin/echo ran', { env: { LD_PRELOAD: join(daemon.workspace, 'evil.so') } }),
    );
    expect(stdout).toBe('ran\n');
    expect(stderr.match(/cannot be preloaded/g)?.length).toBe(1); // By echo, inside; bash starts before its limits are set.
  });

  test('a command reads the standard input that its caller gave, or an empty one', async () => {
    expect(await dataOf(run('cat', { stdin: 'given\n' }))).toMatchObject({ stdout: 'given\n' });
    expect(await dataOf(run('cat; echo end'))).toMatchObject({ stdout: 'end\n' });
    expect(await dataOf(run('head -c 1', { stdin: 'x'.repeat(1_000_000) }))).toMatchObject({
      stdout: 'x',
      exitCode: 0,
    });
  });

  test('a command runs in the directory that its caller gave, or is refused if that is missing', async () => {
    mkdirSync(join(daemon.workspace, 'sub'), { recursive: true });
    expect(await dataOf(run('basename "$PWD"', { cwd: 'sub' }))).toMatchObject({ stdout: 'sub\n' });
    expect(await run('true', { cwd: 'none' })).toMatchObject({ error: { code: 'NOT_FOUND' } });
  });

  test('a command writes a git hook, which other programs trust, in its copy of the folder only', async () => {
    mkdirSync(join(daemon.workspace, '.git/hooks'), { recursive: true });
    const { stdout, stderr } = await dataOf(
      run(
        // Written so that no parser sees the name: only the mounts can protect it.
        'd=.git; echo evil > $d/hooks/pre-commit; cat $d/hooks/pre-commit; mv $d/hooks $d/other; rm -rf $d',
      ),
    );
    expect([stdout, stderr]).toEqual(['evil\n', expect.stringContaining('busy')]);
    expect(existsSync(join(daemon.workspace, '.git/hooks/pre-commit'))).toBe(false);
  });
});

test('commands run beside each other: one can wait for another', async () => {
  const waiting = run('until [ -e flag ]; do sleep 0.01; done; echo seen', { timeout: 10_000 });
  expect(await dataOf(run('touch flag'))).toMatchObject({ exitCode: 0 });
  expect(await dataOf(waiting)).toMatchObject({ stdout: 'seen\n' });
});

test('a hundred commands at once all run, sixteen at a time', async () => {
  const results = await Promise.all(Array.from({ length: 100 }, (_, i) => dataOf(run(`echo ${i}`))));
  expect(results.map((it) => it.stdout)).toEqual(Array.from({ length: 100 }, (_, i) => `${i}\n`));
}, 60_000);
