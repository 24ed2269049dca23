/** `ringfence call` on a terminal that asks its own person: a real PTY, made by script(1). */
import { spawn, spawnSync } from 'node:child_process';
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
  const { stateDir, socket, workspace } = daemon;
  const words = [ringfence, 'call', 'terminal_execute', 'command=true', ...flags];
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
