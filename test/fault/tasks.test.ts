/** Kills the process of a sub-agent, and the daemon, in each of its cycles: the task has an end that is right, and nothing runs twice. */
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { startDaemon, type TestDaemon, temporaryDir } from '../support/daemon.ts';
import { delegate, ScriptedTasks, taskData } from '../support/tasks.ts';

const CYCLES = 4;
/** A machine under load takes its time. */
const LIMITS = { hostStartMs: 100_000 };
let models: ScriptedTasks;
beforeAll(async () => {
  models = await ScriptedTasks.start();
});
afterAll(() => models[Symbol.asyncDispose]());

/** Adds a line to a file, so that a call that ran twice is seen. */
const append = (file: string) => ({ name: 'terminal_execute', input: { command: `echo line >> ${file}` } });
const linesOf = (daemon: Pick<TestDaemon, 'workspace'>, file: string) => {
  const path = join(daemon.workspace, file);
  return existsSync(path) ? readFileSync(path, 'utf8').split('\n').length - 1 : 0;
};
const tasksOf = async (client: Client) => (await client.request('tasks.list', {})).tasks;

/** A model that waits for `go` in one of its cycles, and tells when it does. */
function waitingIn(cycle: number, prompt: string, file: string) {
  const reached = Promise.withResolvers<void>();
  const go = Promise.withResolvers<void>();
  models.on(prompt, async (answer) => {
    if (answer === cycle) {
      reached.resolve();
      await go.promise;
    }
    return answer < CYCLES ? { text: `step ${answer}`, calls: [append(file)] } : { text: 'done' };
  });
  return { reached: reached.promise, go: () => go.resolve() };
}

const agentPids = async (operator: Client): Promise<number[]> => {
  const { hosts } = (await operator.request('status', {})) as { hosts: { tier: string; pid: number; busy: number }[] };
  return hosts.filter((it) => it.tier === 'isolate' && it.busy > 0).map((it) => it.pid);
};

describe('the process of the sub-agent', () => {
  let daemon: TestDaemon;
  beforeAll(async () => {
    daemon = await startDaemon({ limits: LIMITS, config: { agents: models.profiles() } });
  });
  afterAll(() => daemon[Symbol.asyncDispose]());

  test.each(Array.from({ length: CYCLES }, (_, at) => [at + 1]))(
    'a task whose process is killed in cycle %i ends, with each change made at most once',
    async (cycle) => {
      await using agent = await daemon.connect();
      await using operator = await daemon.connect({ role: 'operator' });
      const [prompt, file] = [`killed host ${cycle}`, `host${cycle}`];
      const { reached, go } = waitingIn(cycle, prompt, file);
      const data = taskData(delegate(agent, prompt));
      await reached;
      const [pid] = await agentPids(operator);
      process.kill(pid as number, 'SIGKILL');
      expect(await data).toMatchObject({ ended: 'error', usage: { cycles: cycle } });
      go();
      expect((await data).toolExecutions.length).toBe(cycle - 1);
      expect((await data).reason).toContain('ended while');
      expect(linesOf(daemon, file)).toBe(cycle - 1);
      expect((await tasksOf(operator))[0]).toMatchObject({ ended: 'error', running: false });
      models.on('after', [{ text: 'well' }]);
      expect(await taskData(delegate(agent, 'after'))).toMatchObject({ ended: 'done' });
    },
  );
});

test('the daemon is killed in each cycle', { timeout: 300_000 }, async () => {
  const stateDir = temporaryDir('state');
  const workspace = temporaryDir('ws');
  const start = () => startDaemon({ stateDir, workspace, limits: LIMITS, config: { agents: models.profiles() } });
  let daemon = await start();
  try {
    for (let cycle = 1; cycle <= CYCLES; cycle++) {
      const [prompt, file] = [`killed daemon ${cycle}`, `daemon${cycle}`];
      const { reached, go } = waitingIn(cycle, prompt, file);
      const client = await daemon.connect();
      const running = delegate(client, prompt).catch(() => undefined);
      await reached;
      daemon.process.kill('SIGKILL');
      await daemon.ended;
      await running;
      await client[Symbol.asyncDispose]();
      go();
      const asked = models.requestsOf(prompt).length;

      daemon = await start();
      await using operator = await daemon.connect({ role: 'operator' });
      const [task] = await tasksOf(operator);
      const end = { running: false, ended: 'error', reason: 'the daemon ended while the task ran' };
      expect(task).toMatchObject({ prompt, ...end });
      const { transcript } = await operator.request('tasks.show', { taskId: task?.taskId });
      expect(transcript.filter((it) => it.kind === 'result')).toHaveLength(cycle - 1);
      expect([linesOf(daemon, file), models.requestsOf(prompt).length]).toEqual([cycle - 1, asked]);
    }
  } finally {
    await daemon[Symbol.asyncDispose]();
    for (const it of [stateDir, workspace]) rmSync(it, { recursive: true, force: true });
  }
});
