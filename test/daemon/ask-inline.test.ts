/** `ringfence call` at a terminal asks its own person: uses a real PTY from script(1). */
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import type { Approval } from '../../src/store/approvals/approval.ts';
import { ringfence, startDaemon, type TestDaemon, temporaryDir, until } from '../support/daemon.ts';

const POLICY = `tiers:
  execute: { decision: ask }
rules:
  - { id: keep, match: { write: kept.txt }, decision: ask, reason: It is kept. }
`;

let daemon: TestDaemon;
let operator: Client;
beforeAll(async () => {
  daemon = await startDaemon({ policy: POLICY });
  operator = await daemon.connect({ role: 'operator' });
});
afterAll(async () => {
  await operator[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});

/** A call at a terminal, waiting for the answer to its question. */
async function asked(...flags: string[]) {
  return await askedBy('call', 'terminal_execute', 'command=true', ...flags);
}

async function askedBy(...command: string[]) {
  const { stateDir, socket, workspace } = daemon;
  const words = [ringfence, ...command];
  const places = ['--state', stateDir, '--socket', socket, '--workspace', workspace];
  const child = spawn('script', ['-qec', [process.execPath, ...words, ...places].join(' '), '/dev/null'], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  let shown = '';
  child.stdout.on('data', (chunk) => (shown += chunk));
  const exitCode = new Promise<number | null>((resolve) => child.once('exit', resolve));
  await until(() => shown.includes('  > '), 10_000);
  return { exitCode, type: (text: string) => child.stdin.write(text) };
}

const hasScript = spawnSync('script', ['--version']).status === 0;

describe.runIf(hasScript)('a call that asks on its own terminal', () => {
  test('runs after a yes', async () => {
    const { exitCode, type } = await asked();
    type('y\r');
    expect(await exitCode).toBe(0);
  });

  test('asks about a call that its program makes, too', async () => {
    const program = join(daemon.workspace, 'batch.json');
    const code = 'return (await tools.terminal_execute({ command: "true" })).exitCode';
    writeFileSync(program, JSON.stringify([{ id: 'a', tool: 'code_run', input: { code } }]));
    for (const command of [
      ['call', 'code_run', `"code=${code.replaceAll('"', '\\"')}"`],
      ['batch', program],
    ]) {
      const { exitCode, type } = await askedBy(...command);
      type('y\r');
      expect(await exitCode).toBe(0);
    }
  });

  test('ends with its time limit although nobody answers', async () => {
    const { exitCode } = await asked('--timeout', '3s');
    expect(await exitCode).toBe(5);
  });

  test('ends with its result when it is answered elsewhere', async () => {
    const { exitCode } = await asked();
    const { approvals } = (await operator.request('approvals.list', {})) as { approvals: Approval[] };
    expect(approvals).toHaveLength(1);
    await operator.request('approvals.resolve', { approvalId: approvals[0]?.approvalId, decision: 'approve' });
    expect(await exitCode).toBe(0);
  });

  test('a call that asks is interrupted by Ctrl-C, and its question is withdrawn', async () => {
    const { exitCode, type } = await asked();
    type('\u0003');
    expect(await exitCode).toBe(130);
    expect(await operator.request('approvals.list', {})).toEqual({ approvals: [] });
  });
});

describe.runIf(hasScript)('a terminal', () => {
  /** What a command line shows at a terminal, to which `typed` is typed once it asks. */
  async function shown(words: readonly string[], typed?: readonly [asks: string, text: string]) {
    const places = ['--state', daemon.stateDir, '--socket', daemon.socket];
    const line = [process.execPath, ringfence, ...words, ...places].map((it) => `'${it}'`).join(' ');
    const child = spawn('script', ['-qec', line, '/dev/null'], { stdio: ['pipe', 'pipe', 'inherit'] });
    let seen = '';
    child.stdout.on('data', (chunk) => (seen += chunk));
    const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()));
    if (typed) {
      await until(() => seen.includes(typed[0]), 15_000);
      child.stdin.write(typed[1]);
    }
    await ended;
    return stripVTControlCharacters(seen);
  }
  const within = ['--workspace', ''] as string[];
  beforeAll(() => {
    within[1] = daemon.workspace;
  });

  test('the question about a file that would be written anew shows what changes in it', async () => {
    writeFileSync(join(daemon.workspace, 'kept.txt'), 'first\nsecond\n');
    const text = await shown(['call', 'file_write', 'path=kept.txt', 'content=first', ...within], ['  > ', 'n\r']);
    expect(text).toMatch(/^ {2}replace kept\.txt/m);
    expect(text).toContain('   | -second');
    expect(text).not.toContain('content: first');
  });

  test('a terminal shows what models get of a result, and in one line how the call ended', async () => {
    writeFileSync(join(daemon.workspace, 'a.txt'), 'one\n');
    const text = await shown(['call', 'file_list', ...within]);
    expect(text).toMatch(/^a\.txt 4\r$/m);
    expect(text).toMatch(/^ {2}\d+ ms · call [0-9a-f]{8}\r$/m);
    expect(text).not.toContain('"entries"');
    expect(await shown(['call', 'file_list', '--json', ...within])).toContain('"entries"');
  });

  test('a terminal gets questions, calls and the record as tables with heads and times from now', async () => {
    await using agent = await daemon.connect();
    const waits = agent.call('terminal_execute', { command: 'touch at-a-terminal' });
    waits.catch(() => {}); // Ends with its client.
    await until(async () => (await waiting()).length === 1);
    expect(await shown(['ps'])).toMatch(/state +since +agent +folder +call +id\r\n +\? waits for you +\d+ s/);
    expect(await shown(['approvals', 'list'])).toMatch(
      /left +question +agent.*\r\n +[\d:]+( min)? +\$ touch at-a-terminal/,
    );
    expect(await shown(['audit'])).toMatch(/when +state +agent +folder +call +took +id/);
    expect(await shown(['status'])).toMatch(/waiting +1 question, the oldest \d+ s +ringfence approvals/);
    const answered = await shown(['approvals'], ['  > ', 'n not now\r']);
    expect(answered).toContain('Denied.');
    expect(await waits).toMatchObject({ error: { details: { feedback: 'not now' } } });
  });

  test('a folder that is no workspace is offered to be added, and used after a yes', async () => {
    const folder = temporaryDir('second');
    writeFileSync(join(folder, 'here.txt'), '');
    const no = await shown(['call', 'file_list', '--workspace', folder], ['[y/N]', 'n\r']);
    expect(no).toContain('ringfence workspace add');
    expect(await shown(['call', 'file_list', '--workspace', folder], ['[y/N]', 'y\r'])).toContain('here.txt 0');
  });
});

describe('a call without a terminal, with no person there to ask', () => {
  const { PATH = '' } = process.env;
  const cli = (...words: string[]) => {
    const { stateDir, socket, workspace } = daemon;
    const places = ['--state', stateDir, '--socket', socket];
    const where = words[0] === 'approvals' ? places : [...places, '--workspace', workspace];
    const env = { PATH, HOME: stateDir };
    return spawnSync(process.execPath, [ringfence, ...words, ...where], { encoding: 'utf8', env, timeout: 30_000 });
  };

  test('a call without a person to ask is APPROVAL_REQUIRED with what to run; approved like that, the same call runs', async () => {
    const { status, stdout, stderr } = cli('call', 'terminal_execute', 'command=touch ran', '--json');
    expect([status, stderr]).toEqual([4, '']);
    const { error } = JSON.parse(stdout) as { error: { code: string; suggestion: string; details: object } };
    expect(error).toMatchObject({
      code: 'APPROVAL_REQUIRED',
      category: 'PERMISSION',
      layer: 'approval',
      recoverable: true,
      details: { approvalId: expect.stringMatching(/^a_/) },
    });
    const [, ...words] = /`ringfence ([^`]+)`/.exec(error.suggestion)?.[1]?.split(' ') ?? [];
    expect(cli('approvals', ...words)).toMatchObject({ status: 0 });
    const again = cli('call', 'terminal_execute', 'command=touch ran');
    expect([again.status, existsSync(join(daemon.workspace, 'ran'))]).toEqual([0, true]);
    for (const { approvalId } of await waiting())
      await operator.request('approvals.resolve', { approvalId, decision: 'deny' });
  });

  test('says it to a person in one sentence, and nothing of a client that cancelled', async () => {
    const { status, stderr } = cli('call', 'terminal_execute', 'command=touch told');
    expect(status).toBe(4);
    expect(stderr.match(/APPROVAL_REQUIRED/g)).toHaveLength(1);
    expect(stderr).toMatch(/ringfence approvals approve a_\w+/);
    expect(stderr).not.toMatch(/CANCELLED|cancelled/);
    // Each line of the list says what is asked, where, by whom and for how long.
    const line = cli('approvals').stdout.trim();
    expect(line).toMatch(/^a_\w+ .*(min|\d:\d\d) left .*\$ touch told/);
    expect(line).toContain(`in ${basename(daemon.workspace)}`);
    expect(line).toContain('by uid:');
    for (const { approvalId } of await waiting())
      await operator.request('approvals.resolve', { approvalId, decision: 'deny' });
  });

  test('only ends a call that waits for a person, whoever asks for that', async () => {
    await using agent = await daemon.connect();
    const reading = agent.call('file_list', { path: '.' });
    expect(await agent.request('calls.cancel', { callId: reading.callId, park: true })).toEqual({ cancelled: false });
    expect(await reading).toMatchObject({ success: true });
  });
});

const waiting = async (): Promise<Approval[]> =>
  ((await operator.request('approvals.list', {})) as { approvals: Approval[] }).approvals;

describe('the time limit of a caller that passes while a person is awaited', () => {
  test.each([
    ['a call', async (agent: Client) => agent.call('terminal_execute', { command: 'touch late' }, { timeoutMs: 300 })],
    [
      'a batch',
      async (agent: Client) => {
        const calls = [{ id: 'a', tool: 'terminal_execute', input: { command: 'touch late' } }];
        return (await agent.batch(calls, { timeoutMs: 300 })).results[0];
      },
    ],
  ])('ends %s as APPROVAL_TIMEOUT with the id, and the question can still be answered', async (_, make) => {
    await using agent = await daemon.connect();
    const result = await make(agent);
    const [approval] = await waiting();
    const approvalId = approval?.approvalId;
    expect(result).toMatchObject({
      error: {
        code: 'APPROVAL_TIMEOUT',
        details: { approvalId, limit: 300 },
        suggestion: expect.stringContaining(`${approvalId}`),
      },
    });
    await operator.request('approvals.resolve', { approvalId, decision: 'approve' });
    expect(await agent.call('terminal_execute', { command: 'touch late' })).toMatchObject({ success: true });
  });
});

test.each(['call', 'batch'])('a program of `ringfence %s` does not wait for nobody', (verb) => {
  const { stateDir, socket, workspace } = daemon;
  const code = 'await tools.terminal_execute({ command: "true" })';
  const file = join(workspace, 'batch.json');
  writeFileSync(file, JSON.stringify([{ id: 'a', tool: 'code_run', input: { code } }]));
  const words = verb === 'call' ? ['call', 'code_run', `code=${code}`] : ['batch', file];
  const places = ['--state', stateDir, '--socket', socket, '--workspace', workspace];
  const { status, stderr } = spawnSync(process.execPath, [ringfence, ...words, ...places], {
    encoding: 'utf8',
    timeout: 15_000,
  });
  expect([status, stderr]).toEqual([4, expect.stringContaining('nobody is there')]);
});
