/**
 * Output that nobody reads: the command blocks in its write, the processes in between hold little, and others go on.
 * Runs in this process.
 */
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { defaultLimits } from '../../src/base/limits.ts';
import { systemPowers } from '../../src/base/powers.ts';
import { hostProgram, runtime, version } from '../../src/base/runtime.ts';
import { Hosts } from '../../src/hosts/hosts.ts';
import { createSandbox } from '../../src/sandbox/sandbox.ts';
import { processesWith, temporaryDir, until } from '../support/daemon.ts';

const KiB = 1024;
const limits = { ...defaultLimits, outputWindowBytes: 256 * KiB };
const view = { key: '', rules: [], home: '' };
let workspace: string;
let stateDir: string;
let hosts: Hosts;
beforeAll(async () => {
  [workspace, stateDir] = [temporaryDir('output'), temporaryDir('state')];
  const powers = systemPowers();
  const machine = { arch: process.arch, platform: process.platform, version };
  const sandbox = await createSandbox({ runtime, stateDir, workspaces: [workspace], limits, ...machine }, powers);
  hosts = new Hosts({ sandbox, program: hostProgram, limits }, powers);
});
afterAll(async () => {
  await hosts[Symbol.asyncDispose]();
  for (const it of [workspace, stateDir]) rmSync(it, { recursive: true, force: true });
});

async function run(command: string, signal: AbortSignal, onOutput?: (bytes: number) => Promise<void> | undefined) {
  const bounds = { ...limits.commandMax, outputBytes: 65_536 };
  const job = { tool: 'terminal_execute', input: { command, cwd: '.', env: {}, timeout: 20_000 }, bounds };
  const options = { signal, ...(onOutput && { onOutput: (_: string, data: Uint8Array) => onOutput(data.length) }) };
  return hosts.run({ tier: 'execute', workspace, view }, job, options);
}
const never = new AbortController().signal;
const memoryKib = (pid: number): number =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]);

test('a command whose output is not taken stops writing, and gives all of it once it is', async () => {
  const room = Promise.withResolvers<void>();
  let came = 0;
  const bytes = 32 * KiB * KiB;
  const { pid } = await run('seq 1 1000', never);
  const before = memoryKib(pid);
  const running = run(`head -c ${bytes} /dev/zero; touch written`, never, (more) => {
    came += more;
    return room.promise;
  });
  await until(() => came >= limits.outputWindowBytes);
  // Time for excess output to arrive, and proof that a command beside it is not held up.
  for (let at = 0; at < 5; at += 1) expect((await run('seq 1 1000', never)).result.ok).toBe(true);
  expect(came).toBeLessThan(2 * limits.outputWindowBytes);
  expect(existsSync(join(workspace, 'written'))).toBe(false);
  expect(memoryKib(pid) - before).toBeLessThan(16 * KiB);
  room.resolve();
  expect((await running).result).toMatchObject({ ok: true, usage: { outputBytes: bytes } });
  expect(came).toBe(bytes);
});

test('a command that waits in its write ends at once when its call is aborted', async () => {
  const controller = new AbortController();
  let came = 0;
  const running = run('exec -a marker-untaken yes', controller.signal, (more) => {
    came += more;
    return new Promise(() => {});
  });
  await until(() => came >= limits.outputWindowBytes);
  const from = performance.now();
  controller.abort();
  const { result } = await running;
  expect(performance.now() - from).toBeLessThan(limits.commandAbortMs);
  expect(result).toMatchObject({ ok: false, error: { code: 'CANCELLED' } });
  await until(() => processesWith('marker-untaken').length === 0, 1000);
});
