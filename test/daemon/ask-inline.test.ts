/** `ringfence call` on a terminal that asks its own person: a real PTY, made by script(1). */
import { spawn, spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Client } from '../../src/client.ts';
import type { Approval } from '../../src/store/approval.ts';
import { ringfence, startDaemon, type TestDaemon, until } from '../support/daemon.ts';

let daemon: TestDaemon;
let operator: Client;
beforeAll(async () => {
  daemon = await startDaemon({ policy: 'tiers:\n  execute: { decision: ask }\n' });
  operator = await daemon.connect({ role: 'operator' });
});
afterAll(async () => {
  await operator[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});

/** A call on a terminal that has asked its question. */
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
  await until(() => shown.includes('Your choice'), 10_000);
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

  test('is interrupted by Ctrl-C, and its question is gone', async () => {
    const { exitCode, type } = await asked();
    type('\u0003');
    expect(await exitCode).toBe(130);
    expect(await operator.request('approvals.list', {})).toEqual({ approvals: [] });
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
