import { execFile, spawn } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { BatchCall, Client, ToolResult } from '../../src/client/client.ts';
import type { WatchedBatch } from '../../src/gateway/operator/recent-batches.ts';
import { type OpenDaemon, openDaemon, ringfence, temporaryDir, until } from '../support/daemon.ts';

let daemon: OpenDaemon;
let client: Client;
beforeAll(async () => {
  daemon = await openDaemon({
    policy:
      'tiers:\n  execute: { decision: allow }\nrules:\n  - { id: ask-docs, match: { write: "docs/**" }, decision: ask, reason: they are read by people }\n',
  });
  client = await daemon.connect();
  writeFileSync(join(daemon.workspace, 'list.txt'), 'one.txt\n');
  writeFileSync(join(daemon.workspace, 'one.txt'), 'alpha\n');
});
afterAll(async () => {
  await client[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});

const codes = (results: ToolResult[]) => results.map((it) => (it.success ? 'ok' : it.error.code));
const read = (id: string, path: string, rest: Partial<BatchCall> = {}): BatchCall => ({
  id,
  tool: 'file_read',
  input: { path },
  ...rest,
});
const run = (id: string, command: string, rest: Partial<BatchCall> = {}): BatchCall => ({
  id,
  tool: 'terminal_execute',
  input: { command },
  ...rest,
});

describe('a batch', () => {
  test('hands results on by reference, typed when whole and as text inside', async () => {
    const { success, results, metadata } = await client.batch([
      run('names', 'printf one.txt'),
      read('content', '${names.data.stdout}'),
      {
        id: 'copy',
        tool: 'file_write',
        input: { path: 'copy-of-${names.stdout}', content: '${content.data.content}' },
      },
    ]);
    expect(codes(results)).toEqual(['ok', 'ok', 'ok']);
    expect({ success, levels: metadata.levels }).toEqual({ success: true, levels: [['names'], ['content'], ['copy']] });
    expect(readFileSync(join(daemon.workspace, 'copy-of-one.txt'), 'utf8')).toBe('alpha\n');
  });

  test('calls may say toolName and parameters, and not both names of one thing', async () => {
    const call = { id: 'a', toolName: 'file_read', parameters: { path: 'one.txt' } };
    const { results } = await client.batch([call as never]);
    expect(results).toMatchObject([{ success: true, tool: 'file_read', data: { content: 'alpha\n' } }]);
    await expect(client.batch([{ ...call, tool: 'file_read' } as never])).rejects.toThrow(/toolName/);
    await expect(client.batch([{ ...call, constructor: 1 } as never])).rejects.toThrow(/constructor/);
  });

  test('judges what a reference stands for as if its caller had written it', async () => {
    const { results } = await client.batch([
      run('name', 'printf .env; printf ../../etc/passwd >&2'),
      read('secret', '${name.data.stdout}'),
      read('outside', '${name.data.stderr}'),
      { id: 'wrong', tool: 'file_read', input: { path: '${name.data.exitCode}' } },
    ]);
    expect(codes(results)).toEqual(['ok', 'SENSITIVE_FILE', 'ACCESS_DENIED', 'INPUT_INVALID']);
  });

  test('runs nothing when its calls wait for each other, and names them', async () => {
    const { success, results, error } = await client.batch([
      run('a', 'touch cycle-ran', { dependsOn: ['b'] }),
      run('b', 'true', { dependsOn: ['a'] }),
      run('c', 'touch cycle-ran'),
    ]);
    expect(success).toBe(false);
    expect(codes(results)).toEqual(Array(3).fill('DEPENDENCY_CYCLE'));
    expect(error?.message).toContain('a → b → a');
    expect(await client.call('file_read', { path: 'cycle-ran' })).toMatchObject({ error: { code: 'NOT_FOUND' } });
  });

  test('a batch of a thousand calls is answered whole, in order', async () => {
    const calls = Array.from({ length: 1000 }, (_, at) => read(`c${at}`, 'one.txt'));
    const { metadata, results } = await client.batch(calls);
    expect(metadata).toMatchObject({ totalCalls: 1000, successCount: 1000 });
    expect(results.every((it) => it.success)).toBe(true);
  });

  test('a batch of more calls than the bound is refused with both numbers', async () => {
    const calls = Array.from({ length: 1001 }, (_, at) => read(`c${at}`, 'one.txt'));
    await expect(client.batch(calls)).rejects.toThrow('1001 calls; a batch has at most 1000');
  });

  test.each([
    ['references', '${a.success}'],
    ['texts that look like references', '$${a.success}'],
  ])('a batch with more %s than the bound is refused before they are looked at', async (_, text) => {
    const write = (content: string): BatchCall => ({ id: 'b', tool: 'file_write', input: { path: 'many', content } });
    await expect(client.batch([read('a', 'one.txt'), write(text.repeat(1_000_000))])).rejects.toThrow(
      '0 names in dependsOn and more than 20000 references; a batch has at most 20000 of both',
    );
    await expect(client.plan([read('a', 'one.txt'), write(text.repeat(20_001))])).rejects.toThrow('20000');
  });

  test('tells each result as it comes', async () => {
    const told: string[] = [];
    await client.batch([run('slow', 'sleep 0.3'), read('quick', 'one.txt')], { onResult: (id) => told.push(id) });
    expect(told).toEqual(['quick', 'slow']);
  });

  test('a cancelled batch ends what runs and begins nothing more', async () => {
    const stop = new AbortController();
    const pending = client.batch([run('a', 'sleep 30'), run('b', 'true', { dependsOn: ['a'] })], {
      signal: stop.signal,
      batchId: 'to-cancel',
    });
    const isRunning = async () => {
      const { calls } = (await client.request('calls.list', { status: 'in-progress' })) as { calls: object[] };
      return calls.length > 0;
    };
    await until(isRunning);
    stop.abort();
    expect(codes((await pending).results)).toEqual(['CANCELLED', 'CANCELLED']);
  });

  test('goes on beside a call that waits for a person, whose no costs only what needs it', async () => {
    await using operator = await daemon.connect({ role: 'operator' });
    const listening = operator.notifications(['approvals']);
    const asked = (async () => {
      for await (const { method, params } of listening)
        if (method === 'approval.requested') return params.approval as { approvalId: string };
      throw new Error('nobody was asked');
    })();
    await until(async () => ((await operator.request('status', {})) as { approvers: number }).approvers > 0);
    const done: string[] = [];
    const pending = client.batch(
      [
        { id: 'ask', tool: 'file_write', input: { path: 'docs/x.md', content: 'x' } },
        read('after', 'docs/x.md', { dependsOn: ['ask'] }),
        read('beside', 'one.txt'),
      ],
      { onResult: (id) => done.push(id), concurrency: 1 },
    );
    const { approvalId } = await asked;
    await until(() => done.includes('beside'));
    expect(done).toEqual(['beside']);
    await operator.request('approvals.resolve', { approvalId, decision: 'deny', feedback: 'not today' });
    expect(codes((await pending).results)).toEqual(['APPROVAL_DENIED', 'DEPENDENCY_FAILED', 'ok']);
  });

  test('a batch beyond the number that a session may have is OVERLOADED', async () => {
    const stop = new AbortController();
    const all = Array.from({ length: 5 }, () => client.batch([run('a', 'sleep 30')], { signal: stop.signal }));
    const last = all.pop();
    await expect(last).rejects.toThrow('at most 4');
    stop.abort();
    await Promise.all(all);
  });

  test('begins a call after those before it that its tool usually follows, though it names none of them', async () => {
    const write = { id: 'write', tool: 'write_file', input: { path: 'after.txt', content: '' } };
    const calls = [read('before', 'one.txt'), write, read('later', 'one.txt')];
    expect((await client.plan(calls)).levels).toEqual([['before', 'later'], ['write']]);
    const failing = [read('gone', 'none.txt'), write];
    expect(codes((await client.batch(failing)).results)).toEqual(['NOT_FOUND', 'ok']);
  });

  test('plans its levels, its longest way and its time without running anything', async () => {
    const plan = await client.plan([run('a', 'touch planned'), read('b', 'one.txt', { dependsOn: ['a'] })]);
    expect(plan).toMatchObject({ levels: [['a'], ['b']], criticalPath: ['a', 'b'], maxParallelism: 1 });
    expect(plan.estimatedMs).toBeGreaterThan(0);
    expect(await client.call('file_read', { path: 'planned' })).toMatchObject({ error: { code: 'NOT_FOUND' } });
  });
});

test('the example makes its report in one request', async () => {
  const here = temporaryDir('report');
  mkdirSync(join(here, 'src'));
  writeFileSync(join(here, 'README.md'), '# Some project\n');
  writeFileSync(join(here, 'src/a.ts'), '// TODO: all of it\n');
  try {
    await using own = await openDaemon({ workspace: here });
    const example = join(import.meta.dirname, '../../examples/todo-report.ts');
    const { stdout } = await promisify(execFile)(process.execPath, [example, own.socket, here]);
    // The parallelism of the first level depends on how busy the machine is.
    expect(stdout).toMatch(
      /^3 levels, longest way title → report → check\n# Some project\n\n\n1 files, in which is still to do:\n\nsrc\/a.ts:1:\/\/ TODO: all of it\n\n5 calls, at most [1-3] at once\n$/,
    );
  } finally {
    rmSync(here, { recursive: true });
  }
});

describe('ringfence batch', () => {
  const cli = async (args: string[], input: string) => {
    const child = spawn(process.execPath, [ringfence, 'batch', ...args, '--socket', daemon.socket], {
      cwd: daemon.workspace,
      env: { PATH: process.env.PATH ?? '', HOME: '/nonexistent' },
    });
    child.stdin.end(input);
    const ended = new Promise<number | null>((resolve) => child.once('exit', resolve));
    const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
    return { stdout, stderr, code: await ended };
  };
  const calls = JSON.stringify([read('a', 'one.txt'), read('b', 'none.txt')]);

  test('prints exactly the result with --json, and ends with the code of what failed', async () => {
    const { stdout, code } = await cli(['-', '--json'], calls);
    expect(JSON.parse(stdout)).toMatchObject({ success: false, metadata: { successCount: 1 } });
    expect(code).toBe(1);
  });

  test('ends a call that needs a yes when nobody is there to give it, does the rest, and exits 4', async () => {
    const asks = { id: 'w', tool: 'file_write', input: { path: 'docs/asked.md', content: '' } };
    const batch = JSON.stringify([asks, read('a', 'one.txt')]);
    const { stdout, stderr, code } = await cli(['-', '--state', daemon.stateDir], batch);
    expect(stderr).toContain('nobody is there');
    expect(stdout).toMatch(/^w\tAPPROVAL_REQUIRED\t.*\na\tok\t/);
    expect(code).toBe(4);
    // With --socket alone, the token is found beside the socket.
    const lost = await cli(['-', '--state', '/nonexistent/state'], batch);
    expect(lost).toMatchObject({ code: 3, stderr: expect.stringMatching(/no daemon has run with state directory/) });
    expect(lost.stderr).not.toContain('    at ');
  });

  test('shows the plan', async () => {
    const { stdout, code } = await cli(['-', '--plan'], calls);
    expect(stdout).toMatch(/^level 0: a, b\ncritical path: [ab]\nestimated \d+ ms/);
    expect(code).toBe(0);
  });

  test('says what is wrong with a file that is not a batch', async () => {
    expect(await cli(['-'], '{"call": []}')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('is not a batch'),
    });
  });
});

describe('a batch in the eyes of an operator', () => {
  test('an operator sees a batch listed call by call while it runs, and after it has ended', async () => {
    await using operator = await daemon.connect({ role: 'operator' });
    const ended = client.batch(
      [
        run('one', 'true'),
        run('two', 'until test -e go-on; do sleep 0.05; done', { dependsOn: ['one'] }),
        run('three', 'exit 3'),
        read('four', 'is-not-there', { dependsOn: ['two'] }),
      ],
      { batchId: 'watched' },
    );
    const look = async () => (await operator.request('batches.get', { batchId: 'watched' })) as WatchedBatch;
    // The batch may not have arrived yet.
    await until(async () => (await look().catch(() => undefined))?.calls[1]?.status === 'in-progress');
    const running = await look();
    expect(running).toMatchObject({ running: true, totalCalls: 4, principal: expect.any(String) });
    expect(running.calls[0]).toMatchObject({ id: 'one', status: 'done', level: 0, endMs: expect.any(Number) });
    expect(running.calls[3]).toMatchObject({ level: 2, dependsOn: ['two'] });
    expect(running.calls[3]).not.toHaveProperty('status');
    expect(running.criticalPath.slice(0, 2)).toEqual(['one', 'two']);
    writeFileSync(join(daemon.workspace, 'go-on'), '');
    const { metadata, results } = await ended;
    const over = await look();
    expect(over).toMatchObject({ running: false, endedCalls: 4, failedCalls: 1 });
    expect(over.criticalPath).toEqual(metadata.criticalPath);
    expect(over.calls.map((it) => it.slackMs)).toEqual(metadata.slackMs);
    expect(over.calls.map((it) => it.callId)).toEqual(results.map((it) => it.callId));
    expect(over.calls[3]).toMatchObject({ code: 'NOT_FOUND', status: 'error' });
    const { batches } = (await operator.request('batches.list', {})) as { batches: object[] };
    expect(batches[0]).toMatchObject({ batchId: 'watched', running: false });
    expect(batches[0]).not.toHaveProperty('calls');
  });

  test("agents can't list batches, and a batch that is not known is refused", async () => {
    await expect(client.request('batches.list', {})).rejects.toMatchObject({ code: -32004 });
    await expect(client.request('batches.get', { batchId: 'watched' })).rejects.toMatchObject({ code: -32004 });
    await using operator = await daemon.connect({ role: 'operator' });
    await expect(operator.request('batches.get', { batchId: 'nothing' })).rejects.toThrow('there is no batch nothing');
  });
});
