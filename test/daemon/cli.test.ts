/** The command line for people and scripts. */
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { defaultLimits } from '../../src/base/limits.ts';
import { decode, encode } from '../../src/wire/protocol/codec.ts';
import { encodeFrame, FrameReader } from '../../src/wire/protocol/frame.ts';
import { BUILT_IN_DEFAULT, processesWith, ringfence, temporaryDir, until } from '../support/daemon.ts';

const home = temporaryDir('home');
const state = join(home, 'state');
const workspace = join(home, 'project');
const policy = join(home, 'policy.yaml');
const env = { PATH: process.env.PATH ?? '', HOME: home, RINGFENCE_STATE: state, XDG_CONFIG_HOME: join(home, 'config') };

interface Run {
  code: number | null;
  stdout: string;
  stderr: string;
}

async function cli(
  args: string[],
  options: { cwd?: string; env?: object; signalAfter?: (pid: number) => Promise<void> } = {},
): Promise<Run> {
  const child = spawn(process.execPath, [ringfence, ...args], {
    cwd: options.cwd ?? workspace,
    env: { ...env, ...options.env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const ended = new Promise<number | null>((resolve) => child.once('exit', resolve));
  const output = Promise.all([text(child.stdout), text(child.stderr)]);
  await options.signalAfter?.(child.pid as number);
  const [code, [stdout, stderr]] = [await ended, await output];
  return { code, stdout, stderr };
}

function configFile(content: string): string {
  const folder = join(home, 'config/ringfence');
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'config.yaml'), content);
  return join(folder, 'config.yaml');
}

beforeAll(async () => {
  mkdirSync(workspace);
  writeFileSync(join(workspace, 'a.txt'), 'one\ntwo\n');
  writeFileSync(policy, BUILT_IN_DEFAULT, { mode: 0o600 });
});
afterAll(async () => {
  await cli(['stop']);
  await until(() => processesWith(state).length === 0);
  rmSync(home, { recursive: true, force: true });
});

describe('without a daemon', () => {
  test('status, stop and --no-autostart exit 3 and say how to start one', async () => {
    for (const args of [['status'], ['call', 'file_list', '--no-autostart']]) {
      const { code, stderr, stdout } = await cli(args);
      expect([code, stdout]).toEqual([3, '']);
      expect(stderr).toMatch(/ringfence serve|no daemon/);
    }
    expect((await cli(['stop'])).code).toBe(3);
  });

  test('one of several calls at once starts the daemon, and all are answered', async () => {
    const runs = await Promise.all(Array.from({ length: 5 }, () => cli(['call', 'file_read', 'path=a.txt', '--json'])));
    expect(runs.map(({ code, stderr }) => (code === 0 ? 0 : stderr))).toEqual([0, 0, 0, 0, 0]);
    expect(runs.filter(({ stderr }) => stderr.includes('started a daemon'))).toHaveLength(1);
    expect((await cli(['stop'])).code).toBe(0);
    await until(() => processesWith(state).length === 0);
  }, 60_000);

  test('call starts one for this user, and says so on stderr only', async () => {
    const { code, stdout, stderr } = await cli(['call', 'file_list', '--json']);
    expect(stderr).toMatch(/started a daemon \(pid \d+/);
    expect(JSON.parse(stdout)).toMatchObject({ success: true, tool: 'file_list', data: { count: 1 } });
    expect(code).toBe(0);
    expect((await cli(['stop'])).code).toBe(0);
    expect(processesWith(state)).not.toContain(Number(/pid (\d+)/.exec(stderr)?.[1]));
    await until(() => processesWith(state).length === 0);
  });

  test('a state directory that can not be is refused, not tried for ever', async () => {
    for (const [path, code] of [
      ['/proc/nope', 'ENOENT'],
      [join(workspace, 'a.txt'), 'ENOTDIR'],
    ] as const) {
      for (const args of [['serve'], ['serve', '--detach'], ['call', 'file_list']]) {
        const { code: exit, stderr } = await cli([...args, '--state', path]);
        expect([exit, stderr]).toEqual([2, expect.stringContaining(`${path} can't be created or used: ${code}`)]);
      }
    }
  });

  test.each([
    ['who wants it to stop waits for that', ['stop'], ''],
    ['a call waits for the next one', ['call', 'file_read', 'path=a.txt', 'maxLines=1'], 'one\n'],
  ])('while one stops, %s', async (_, args, output) => {
    const began = join(workspace, 'began');
    expect((await cli(['serve', '--detach', '--workspace', workspace, '--policy', policy])).code).toBe(0);
    // A call that runs at the stop request may end within its grace.
    const running = cli(['call', 'terminal_execute', 'command=touch began; sleep 2']);
    await until(() => existsSync(began));
    const first = cli(['stop']);
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(await cli(args)).toMatchObject({ code: 0, stdout: output });
    expect([(await first).code, (await running).code]).toEqual([0, 0]);
    await cli(['stop']);
    await until(() => processesWith(state).length === 0);
    rmSync(began);
  });

  test('hosts run with the few open files that the person allows', async () => {
    const call = `ulimit -n 256; exec ${process.execPath} ${ringfence} call file_read path=a.txt`;
    const { status, stdout } = spawnSync('bash', ['-c', call], { cwd: workspace, env, encoding: 'utf8' });
    expect([status, stdout]).toEqual([0, 'one\ntwo\n']);
    expect((await cli(['stop'])).code).toBe(0);
    await until(() => processesWith(state).length === 0);
  });

  test('a folder that was removed under the shell is told of as that', async () => {
    const gone = join(home, 'gone');
    mkdirSync(gone);
    const command = `cd ${gone} && rmdir ${gone} && exec ${process.execPath} ${ringfence} call file_list`;
    const { status, stderr } = spawnSync('bash', ['-c', command], { env, encoding: 'utf8' });
    expect([status, stderr]).toEqual([2, expect.stringMatching(/the current folder was removed/)]);
  });

  test('a level of the log that there is not is refused with those that there are', async () => {
    const { code, stderr } = await cli(['serve'], { env: { RINGFENCE_LOG: 'loud' } });
    expect(code).toBe(2);
    expect(JSON.parse(stderr)).toMatchObject({
      level: 60,
      msg: expect.stringMatching(/loud; it must be one of .*info.*silent/),
    });
  });

  test('the home directory, the root and what holds the state are never workspaces', async () => {
    expect(await cli(['serve'], { cwd: home })).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/home directory can't be a workspace/),
    });
    expect(await cli(['serve', '--workspace', '/'])).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/root directory can't be a workspace/),
    });
    expect(await cli(['serve', '--state', join(workspace, 's')])).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/where agents could change it/),
    });
    rmSync(join(workspace, 's'), { recursive: true, force: true });
  });

  test('a wrong policy keeps serve from starting, with its place', async () => {
    const bad = join(home, 'bad.yaml');
    writeFileSync(bad, 'tiers:\n  execute: { decision: maybe }\n', { mode: 0o600 });
    expect(await cli(['serve', '--policy', bad])).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/bad\.yaml:2:24: tiers\.execute\.decision/),
    });
  });

  test('an error in the config file is reported by its key, in a provider too', async () => {
    const file = configFile('providers: { clock: { comand: [node] } }');
    expect(await cli(['serve'])).toMatchObject({ code: 2, stderr: expect.stringMatching(/providers\.clock.*comand/) });
    rmSync(file);
  });

  test('paths in the config file are from its folder or the home directory, wherever the daemon is started', async () => {
    for (const named of ['~/policy.yaml', '../../policy.yaml']) {
      const file = configFile(`policy: ${named}\nworkspaces: [~/project]\n`);
      expect(await cli(['serve', '--detach'], { cwd: '/' })).toMatchObject({ code: 0 });
      expect((await cli(['call', 'terminal_execute', 'command=touch t; rm t'])).code).toBe(0);
      expect((await cli(['stop'])).code).toBe(0);
      rmSync(file);
    }
  });

  test('a socket path that the kernel would not take is explained', async () => {
    const long = ['--socket', join(home, 'x'.repeat(120))];
    expect(await cli(['serve', ...long])).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/the kernel takes 107/),
    });
    const { stderr } = await cli(['call', ...long, 'file_list', 'path=.']);
    expect(stderr).toMatch(/the kernel takes 107/);
  });
});

describe('with a daemon', () => {
  beforeAll(async () => {
    expect((await cli(['serve', '--detach', '--workspace', workspace, '--policy', policy])).code).toBe(0);
  });

  test('call prints the text of a file, and facts on stderr', async () => {
    expect(await cli(['call', 'file_read', 'path=a.txt', 'startLine=2'])).toMatchObject({
      code: 0,
      stdout: 'two\n',
      stderr: expect.stringMatching(/read_only · host \d+/),
    });
    expect(await cli(['call', 'file_read', '{"path":"a.txt"}'])).toMatchObject({ code: 0, stdout: 'one\ntwo\n' });
  });

  test('values are read as the schema says', async () => {
    expect((await cli(['call', 'file_write', 'path=n.txt', 'content=123'])).code).toBe(0);
    expect((await cli(['call', 'file_read', 'path=n.txt'])).stdout).toBe('123');
  });

  test.each([
    ['0 for a success', ['call', 'terminal_execute', 'command=true'], 0],
    ['3 for a command that ended with 3', ['call', 'terminal_execute', 'command=exit 3'], 3],
    ['1 for a call that failed', ['call', 'file_read', 'path=none'], 1],
    ['2 for wrong usage', ['call'], 2],
    ['2 for input that is no input', ['call', 'file_read', 'nonsense'], 2],
    ['2 for a duration that is none', ['call', 'file_list', '--timeout', 'soon'], 2],
    ['4 for what is denied', ['call', 'file_read', 'path=../x'], 4],
    ['5 for what ran out of time', ['call', 'terminal_execute', 'command=sleep 60', '--timeout', '200ms'], 5],
  ] as const)('exit code %s', async (_, args, code) => {
    expect((await cli([...args])).code).toBe(code);
  });

  test('exit code 130 for an interruption, and the command is gone', async () => {
    const running = cli(['call', 'terminal_execute', 'command=exec -a marker-of-ctrl-c sleep 60'], {
      async signalAfter(pid) {
        // Our process, and at least the command.
        await until(() => processesWith('marker-of-ctrl-c').length >= 2);
        process.kill(pid, 'SIGINT');
      },
    });
    expect((await running).code).toBe(130);
    await until(() => processesWith('marker-of-ctrl-c').length === 0);
  });

  test('--json prints exactly the result, of failures too', async () => {
    const { stdout, stderr, code } = await cli(['call', 'file_read', 'path=none', '--json']);
    expect(JSON.parse(stdout)).toMatchObject({ success: false, error: { code: 'NOT_FOUND' } });
    expect([stderr, code]).toEqual(['', 1]);
  });

  test('--progress shows states beside the output', async () => {
    expect(await cli(['call', 'terminal_execute', 'command=echo early', '--progress'])).toMatchObject({
      stdout: 'early\n',
      stderr: expect.stringContaining('in-progress\n'),
    });
  });

  test('tools lists, tells about one, and knows all formats', async () => {
    expect((await cli(['tools'])).stdout).toMatch(/^file_list +read_only +allow/m);
    expect((await cli(['tools', 'bash'])).stdout).toMatch(/terminal_execute — Run a command/);
    expect(JSON.parse((await cli(['tools', '--format', 'anthropic'])).stdout)[0]).toHaveProperty('input_schema');
    expect((await cli(['tools', 'none'])).code).toBe(1);
  });

  test('status tells, for people and as JSON', async () => {
    expect((await cli(['status'])).stdout).toMatch(/box +level [AB]/);
    expect(JSON.parse((await cli(['status', '--json'])).stdout)).toMatchObject({
      confinement: { level: expect.stringMatching(/^[AB]$/) },
    });
  });

  test('a folder that is no workspace of it is refused with the command that helps', async () => {
    const other = join(home, 'other');
    mkdirSync(other);
    expect(await cli(['call', 'file_list'], { cwd: other })).toMatchObject({
      code: 4,
      stderr: expect.stringMatching(/ringfence workspace add/),
    });
  });

  test('a refused command line ends at once, and does not wait until the daemon drops its connection', async () => {
    const since = performance.now();
    expect((await cli(['call', 'file_list'], { cwd: home })).code).toBe(4);
    expect(performance.now() - since).toBeLessThan(defaultLimits.helloTimeoutMs - 1000);
  });

  test('--workspace is told as a shell tells folders, and the command that adds one can be copied', async () => {
    const part = join(workspace, 'a part');
    mkdirSync(part);
    writeFileSync(join(part, 'p.txt'), 'part\n');
    const read = (folder: string, cwd: string) =>
      cli(['call', 'file_read', 'path=p.txt', '--workspace', folder], { cwd });
    expect(await read('a part', workspace)).toMatchObject({ code: 0, stdout: 'part\n' });
    expect(await read('.', part)).toMatchObject({ code: 0, stdout: 'part\n' });
    expect((await read("it's", home)).stderr).toContain(`ringfence workspace add '${home}/it'\\''s'`);
    rmSync(part, { recursive: true });
  });

  test('stdio speaks the protocol on standard input and output', async () => {
    const child = spawn(process.execPath, [ringfence, 'stdio'], {
      cwd: workspace,
      env,
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    const reader = new FrameReader(defaultLimits.frameBytesMax);
    const answer = new Promise((resolve) => {
      child.stdout.on('data', (chunk: Buffer) => resolve(reader.push(chunk).map((it) => decode(it, defaultLimits))[0]));
    });
    child.stdin.write(
      encodeFrame(
        encode({ id: 1, method: 'hello', params: { protocol: 1, client: { name: 'x', version: '1' } } }),
        1e6,
      ),
    );
    expect(await answer).toMatchObject({ id: 1, result: { protocol: 1 } });
    child.stdin.end();
    expect(await new Promise((resolve) => child.once('exit', resolve))).toBe(0);
  });

  test('a second serve on the same state is refused', async () => {
    expect(await cli(['serve', '--workspace', workspace])).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/another daemon/),
    });
    expect(existsSync(join(state, 'ringfence.sock'))).toBe(true);
  });
});

test('help teaches: verbs, examples, exit codes', async () => {
  const { stdout, code } = await cli(['--help']);
  expect(code).toBe(0);
  for (const it of ['serve', 'call', 'status', 'stop', 'Examples:', 'Exit codes:']) expect(stdout).toContain(it);
  expect(stdout).not.toContain('stdio');
  for (const it of ['tools', 'stdio']) expect((await cli(['help', '--all'])).stdout).toContain(`  ${it} `);
  expect((await cli(['help', 'policy', 'explain'])).stdout).toContain('Usage: ringfence policy explain');
  expect(await cli(['help', 'polic'])).toMatchObject({ code: 2, stderr: expect.stringContaining("'polic'") });
  expect((await cli(['cal'])).stderr).toMatch(/Did you mean call/);
});
