/** Verbs for the person who runs the daemon: from any folder, without a daemon if possible, always with JSON. */
import { spawn, spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { beginCli, endOf, runCli } from '../support/cli.ts';
import { ringfence, startDaemon, type TestDaemon, temporaryDir, until } from '../support/daemon.ts';

let daemon: TestDaemon;
let elsewhere: string;
beforeAll(async () => {
  daemon = await startDaemon();
  elsewhere = temporaryDir('elsewhere');
});
afterAll(async () => {
  await daemon[Symbol.asyncDispose]();
  rmSync(elsewhere, { recursive: true, force: true });
});

const cli = (...args: string[]) => runCli(daemon, args);
const table = (text: string) => text.split('\n').map((line) => line.trim().split(/ {2,}/));

describe('audit', () => {
  test('lists calls by default: id, tool, decision, result, duration; no sessions', async () => {
    const id = /call ([0-9a-f-]{36})/.exec(
      (await cli('call', 'file_write', 'path=a', 'content=1')).stderr,
    )?.[1] as string;
    await cli('call', 'file_read', 'path=../etc/passwd');
    const [titles, ...rows] = table((await cli('audit')).stdout.trimEnd());
    expect(titles).toEqual(['ID', 'AT', 'WHO', 'AGENT', 'WORKSPACE', 'TOOL', 'DECISION', 'RESULT', 'MS', 'WHAT']);
    expect(rows).toHaveLength(2);
    expect(rows[0]?.[0]).toBe(id.slice(-8));
    expect(rows[0]?.slice(3, 5)).toEqual(['ringfence-cli', daemon.workspace.slice(0, 47)]);
    expect(rows[0]?.slice(5)).toEqual(['file_write', 'allow', 'ok', expect.stringMatching(/^\d+\.\d$/), 'write a']);
    expect(rows[1]?.join(' ')).toMatch(/file_read.*ACCESS_DENIED/);
    const calls = JSON.parse((await cli('audit', '--json')).stdout) as object[];
    expect(calls[0]).toMatchObject({ callId: id, tool: 'file_write', decision: 'allow', result: 'ok' });
    expect(JSON.parse((await cli('audit', '--call-id', id.slice(-8), '--json')).stdout)).toHaveLength(1);
    expect((await cli('audit', 'query')).stdout).toMatch(/ session /);
  });

  test('shows a call that goes on as under way, and one that waits for a yes as asked', async () => {
    const child = beginCli(daemon, ['call', 'terminal_execute', 'command=echo begun; sleep 60']);
    await new Promise((resolve) => child.stdout.once('data', resolve));
    expect((await cli('audit', '--limit', '1')).stdout).toMatch(/terminal_execute +allow +under way/);
    child.kill('SIGINT');
    await endOf(child);
    await using agent = await daemon.connect();
    const fetching = agent.call('web_fetch', { url: 'https://example.org/' });
    fetching.catch(() => {}); // The connection ends before an answer.
    await until(async () => /web_fetch +ask +asked/.test((await cli('audit')).stdout));
  });

  test.each(['5', 'yesterday', '2026', '1 May', '2026-13-45'])('--since %s is refused', async (since) => {
    for (const args of [['audit'], ['audit', 'query'], ['audit', 'export']])
      expect(await cli(...args, '--since', since)).toMatchObject({ code: 2, stderr: expect.stringContaining('30d') });
    await using operator = await daemon.connect({ role: 'operator' });
    await expect(operator.request('audit.query', { since })).rejects.toThrow(/ISO 8601/);
  });

  test('audit of a state directory without a daemon reads the record there, and verifies it', async () => {
    await using first = await startDaemon();
    await runCli(first, ['call', 'file_list']);
    const copy = join(elsewhere, 'copy');
    // The daemon ends first: unwritten entries are not in the record.
    first.process.kill('SIGTERM');
    await first.ended;
    cpSync(first.stateDir, copy, { recursive: true });
    const offline = (...args: string[]) => runCli({ ...first, stateDir: copy, socket: join(copy, 'd.sock') }, args);
    const listed = await offline('audit');
    expect([listed.code, listed.stderr]).toEqual([0, expect.stringContaining('no daemon runs')]);
    expect(listed.stdout).toMatch(/file_list +allow +ok/);
    expect(await offline('audit', 'verify')).toMatchObject({ code: 0, stdout: expect.stringMatching(/^\d+ entries/) });
    expect((await offline('audit', 'export')).stdout.trim().split('\n').length).toBeGreaterThan(3);
    expect((await offline('audit', '--since', '5')).code).toBe(2);
    expect((await offline('status')).code).toBe(3);
    const { status } = spawnSync('node', ['-e', TAMPER, join(copy, 'audit.db')], { encoding: 'utf8' });
    expect(status).toBe(0);
    expect(await offline('audit', 'verify')).toMatchObject({ code: 1, stderr: expect.stringContaining('broken') });
    expect(await offline('audit', '--state', join(elsewhere, 'none'))).toMatchObject({ code: 3 });
  });
});

/** Changes a row of an audit log. */
const TAMPER = `const { DatabaseSync } = require('node:sqlite');
new DatabaseSync(process.argv[1]).exec("UPDATE audit SET tool = 'file_read' WHERE kind = 'outcome'")`;

describe('from a folder that is gone, or is no workspace', () => {
  const VERBS = [
    ['status'],
    ['approvals'],
    ['approvals', 'grants'],
    ['audit'],
    ['audit', 'verify'],
    ['ps'],
    ['providers'],
    ['version'],
    ['policy', 'explain', 'file_read', 'path=a'],
    ['policy', 'reload'],
  ];
  const inGone = (args: readonly string[]) => {
    const words = [process.execPath, ringfence, ...args].map((it) => `'${it}'`).join(' ');
    const env = {
      PATH: process.env.PATH,
      HOME: '/nonexistent',
      RINGFENCE_STATE: daemon.stateDir,
      RINGFENCE_SOCKET: daemon.socket,
    };
    const script = `mkdir -p ${elsewhere}/gone && cd ${elsewhere}/gone && rmdir ${elsewhere}/gone && exec ${words}`;
    return spawnSync('bash', ['-c', script], { env, encoding: 'utf8' });
  };

  test.each(VERBS.map((it) => [it.join(' '), it] as const))('`%s` works', async (_, args) => {
    expect(await runCli(daemon, args, { cwd: elsewhere })).toMatchObject({ code: 0 });
    expect(inGone(args)).toMatchObject({ status: 0 });
  });

  test('logs of a call are read from there too', async () => {
    const id = /call ([0-9a-f-]{36})/.exec(
      (await cli('call', 'terminal_execute', 'command=echo hi')).stderr,
    )?.[1] as string;
    expect(inGone(['logs', id])).toMatchObject({ status: 0, stdout: 'hi\n' });
  });

  test('`stop` ends the daemon of a workspace that was deleted', async () => {
    await using doomed = await startDaemon();
    rmSync(doomed.workspace, { recursive: true });
    expect((await runCli(doomed, ['stop'], { cwd: elsewhere })).code).toBe(0);
    expect(await doomed.ended).toBe(0);
    mkdirSync(doomed.workspace);
  });
});

describe('with --socket alone', () => {
  const bare = (socket: string, ...args: string[]) => {
    const child = spawn(process.execPath, [ringfence, ...args, '--socket', socket], {
      cwd: elsewhere,
      env: { PATH: process.env.PATH ?? '', HOME: elsewhere },
      stdio: 'ignore',
    });
    return endOf(child);
  };

  test('the token is found beside the socket', async () => {
    expect(await bare(daemon.socket, 'status')).toBe(0);
  });

  test('the token is found where the daemon of a socket elsewhere keeps it', async () => {
    const home = temporaryDir('apart');
    const [socket, state, workspace] = [join(home, 'run/s.sock'), join(home, 'state'), join(home, 'ws')];
    for (const it of [workspace, join(home, 'run')]) mkdirSync(it, { mode: 0o700 });
    const place = { stateDir: state, socket, workspace };
    expect((await runCli(place, ['serve', '--detach'])).code).toBe(0);
    expect(await bare(socket, 'status')).toBe(0);
    expect(await bare(socket, 'stop')).toBe(0);
    rmSync(home, { recursive: true });
  });
});

describe('status', () => {
  test('names the policy in force and who named it', async () => {
    const file = join(daemon.stateDir, 'policy.yaml');
    expect((await cli('status')).stdout).toContain(`policy ${file} (`);
    expect((await cli('status')).stdout).toContain('by --policy');
    expect(JSON.parse((await cli('status', '--json')).stdout)).toMatchObject({
      policy: { name: file, from: 'flag', version: expect.stringMatching(/^sha256:/), rules: expect.any(Number) },
    });
    await using agent = await daemon.connect();
    expect(await agent.request('status', {})).not.toHaveProperty('policy');
  });

  test.each([
    ['file', 'policy: unattended\n', {}],
    ['environment', '', { RINGFENCE_POLICY: 'unattended' }],
    ['default', '', {}],
  ])('tells a policy that comes from %s', async (from, config, env) => {
    const home = temporaryDir('policy-from');
    const place = { stateDir: join(home, 'state'), socket: join(home, 'state/d.sock'), workspace: join(home, 'ws') };
    mkdirSync(place.workspace);
    writeFileSync(join(home, 'config.yaml'), config);
    const options = { env: { RINGFENCE_CONFIG: join(home, 'config.yaml'), ...env } };
    expect((await runCli(place, ['serve', '--detach'], options)).code).toBe(0);
    const { stdout } = await runCli(place, ['status', '--json'], options);
    const name = from === 'default' ? 'default' : 'unattended';
    expect(JSON.parse(stdout)).toMatchObject({ policy: { name, from } });
    expect((await runCli(place, ['stop'], options)).code).toBe(0);
    rmSync(home, { recursive: true });
  });
});

describe('--json', () => {
  test.each([
    ['status'],
    ['approvals'],
    ['stop'],
    ['call', 'file_list', '--no-autostart'],
    ['logs', 'x'],
    ['ps'],
    ['undo', '--last'],
    ['policy', 'check', '/nonexistent.yaml'],
  ])('`%s` --json without a daemon prints JSON on standard output', async (...args) => {
    const nowhere = { ...daemon, stateDir: join(elsewhere, 'no-state'), socket: join(elsewhere, 'no.sock') };
    const { code, stdout } = await runCli(nowhere, [...args, '--json'], { cwd: elsewhere });
    expect(code).not.toBe(0);
    const told = JSON.parse(stdout);
    if (args[0] !== 'policy')
      expect([code, told]).toEqual([
        3,
        { success: false, error: { code: 'UNREACHABLE', message: expect.any(String), exitCode: 3 } },
      ]);
  });

  test('every verb that prints something takes --json, and prints JSON', { timeout: 90_000 }, async () => {
    const file = join(daemon.stateDir, 'policy.yaml');
    for (const args of [
      ...[['status'], ['tools'], ['version'], ['ps'], ['approvals'], ['approvals', 'grants'], ['providers']],
      ...[['providers', 'check'], ['audit'], ['audit', 'query'], ['audit', 'verify'], ['workspace'], ['plugin']],
      ...[
        ['policy', 'check', file],
        ['policy', 'test', file],
        ['policy', 'diff', 'default', 'unattended'],
      ],
      ...[
        ['policy', 'reload'],
        ['policy', 'explain', 'file_list'],
        ['call', 'file_list'],
      ],
    ]) {
      const { code, stdout } = await cli(...args, '--json');
      expect([args.join(' '), code, typeof JSON.parse(stdout)]).toEqual([args.join(' '), 0, 'object']);
    }
    const usage = await cli('undo', '--json');
    expect([usage.code, JSON.parse(usage.stdout)]).toMatchObject([2, { error: { code: 'USAGE' } }]);
    await using doomed = await startDaemon();
    expect(await runCli(doomed, ['stop', '--json'])).toMatchObject({ code: 0, stdout: '{"stopped":true}\n' });
  });
});

describe('values', () => {
  test('policy explain takes its values as key=value, as call does', async () => {
    const { code, stdout } = await cli('policy', 'explain', 'file_read', 'path=.env');
    expect([code, stdout]).toEqual([4, expect.stringMatching(/^deny\n +read +\.env/)]);
    expect((await cli('policy', 'explain', 'file_read', '{"path":"a"}')).stdout).toMatch(/^allow/);
  });

  test('come from files and standard input, alone and whole', async () => {
    writeFileSync(join(daemon.workspace, 'text'), '@from a file: 12\n');
    const read = async () => (await cli('call', 'file_read', 'path=out')).stdout;
    expect((await cli('call', 'file_write', 'path=out', 'content=@text')).code).toBe(0);
    expect(await read()).toBe('@from a file: 12\n');
    const piped = { stdin: '123' };
    expect((await runCli(daemon, ['call', 'file_write', 'path=out', 'content=@-'], piped)).code).toBe(0);
    expect(await read()).toBe('123');
    expect((await cli('call', 'file_write', 'path=out', 'content=@@text')).code).toBe(0);
    expect(await read()).toBe('@text');
    const whole = JSON.stringify({ path: 'out', content: 'whole' });
    expect((await runCli(daemon, ['call', 'file_write', '-'], { stdin: whole })).code).toBe(0);
    expect(await read()).toBe('whole');
    writeFileSync(join(daemon.workspace, 'input.json'), whole.replace('whole', 'file'));
    expect((await cli('call', 'file_write', '@input.json')).code).toBe(0);
    expect(await read()).toBe('file');
  });

  test('values that can not be read are wrong usage, and nothing runs', async () => {
    writeFileSync(join(daemon.workspace, 'bytes'), Buffer.from([0xff, 0xfe]));
    for (const value of ['content=@none', 'content=@bytes', 'content=@.'])
      expect((await cli('call', 'file_write', 'path=never', value)).code).toBe(2);
    expect((await cli('call', 'file_write', 'path=@-', 'content=@-')).code).toBe(2);
    expect((await cli('call', 'file_read', 'path=never')).code).toBe(1);
  });
});

describe('version and completion', () => {
  test('version names both, and starts no daemon', async () => {
    expect((await cli('version')).stdout).toMatch(
      /^ringfence \d+\.\d+\.\d+, Node \d+.*\ndaemon \d+\.\d+\.\d+, pid \d+\n$/,
    );
    const nowhere = { ...daemon, stateDir: join(elsewhere, 'no-state'), socket: join(elsewhere, 'no.sock') };
    expect(await runCli(nowhere, ['version'])).toMatchObject({ code: 0, stdout: expect.stringContaining('no daemon') });
  });

  test.each([
    ['ringfence au', ['audit']],
    ['ringfence approvals ap', ['approve']],
    ['ringfence call file_re', ['file_read', 'file_read_many', 'file_rename']],
    ['ringfence call file_read --time', ['--timeout']],
    ['ringfence tools --format open', ['openai']],
    ['ringfence policy explain git_st', ['git_status']],
  ])('bash completes `%s`', async (line, expected) => {
    const { stdout } = await cli('completion', 'bash');
    const script = `${stdout}\nCOMP_WORDS=(${line}); COMP_CWORD=$((\${#COMP_WORDS[@]}-1)); _ringfence; printf '%s\\n' "\${COMPREPLY[@]}"`;
    const { stdout: replies } = spawnSync('bash', ['-c', script], { encoding: 'utf8' });
    expect(replies.trim().split('\n')).toEqual(expect.arrayContaining(expected));
  });

  test('zsh and fish get a script, another shell is refused', async () => {
    expect((await cli('completion', 'zsh')).stdout).toMatch(/^#compdef ringfence\n/);
    expect((await cli('completion', 'fish')).stdout).toMatch(/complete -c ringfence .* -l timeout/);
    expect((await cli('completion', 'csh')).code).toBe(2);
  });
});

describe('status', () => {
  test('status names the questions that wait, and its short form counts them', async () => {
    const waiting = async () => (await cli('status')).stdout;
    await using agent = await daemon.connect();
    const fetching = agent.call('web_fetch', { url: 'https://waits.example/' });
    fetching.catch(() => {}); // The connection ends before an answer.
    await until(async () => /waiting +\d+ questions?, the oldest .*\n(.*\n)*.*waits\.example/.test(await waiting()));
    expect((await cli('status', '--short')).stdout).toMatch(/^● \d+\?/);
    const none = temporaryDir('no-daemon');
    expect(
      await runCli({ ...daemon, stateDir: none, socket: join(none, 'none.sock') }, ['status', '--short']),
    ).toMatchObject({
      code: 0,
      stdout: '',
    });
    rmSync(none, { recursive: true });
  });
});
