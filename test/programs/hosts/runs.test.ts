/** What becomes of a job: real tier hosts without a sandbox run it. */
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { defaultLimits } from '../../../src/base/limits.ts';
import { systemPowers } from '../../../src/base/powers.ts';
import type { Host } from '../../../src/hosts/host.ts';
import { type HostKey, HostMasks } from '../../../src/hosts/host-masks.ts';
import { Runs } from '../../../src/hosts/runs.ts';
import { Slots } from '../../../src/hosts/slots/slots.ts';
import { builtinTools } from '../../../src/tools/builtin.ts';
import { startBareHost } from '../../support/bare-host.ts';
import { temporaryDir, until } from '../../support/daemon.ts';

const limits = defaultLimits;
const powers = systemPowers();
const { signal } = new AbortController();
let workspace: string;
let started: Host[];
let stack: AsyncDisposableStack;
let runs: Runs;
beforeEach(() => {
  [workspace, started, stack] = [temporaryDir('runs'), [], new AsyncDisposableStack()];
  stack.defer(() => rmSync(workspace, { recursive: true }));
  const start = (key: HostKey) => {
    started.push(startBareHost(key, limits, powers));
    return started.at(-1) as Host;
  };
  const masks = stack.use(new HostMasks(limits, powers));
  runs = new Runs({ slots: stack.use(new Slots({ start, masks, limits }, powers)), masks });
  writeFileSync(join(workspace, 'a.txt'), 'text\n');
});
afterEach(() => stack.disposeAsync());

const keyOf = (tier: HostKey['tier']): HostKey => ({ tier, workspace, view: { key: '', rules: [], home: '' } });
const { file_read: read, file_write: write } = builtinTools;
const READ = { tool: read.name, input: read.input.parse({ path: 'a.txt' }) };
const WRITE = { tool: write.name, input: write.input.parse({ path: 'b.txt', content: 'x' }) };
/** Kills the newest host once a call was sent to it. */
const killing = { signal, onStarted: () => started.at(-1)?.kill() };

test('a job runs in the host of its key, and so does the next one', async () => {
  const first = await runs.run(keyOf('write'), WRITE, { signal });
  expect(first).toMatchObject({ result: { ok: true }, pid: started[0]?.pid });
  expect((await runs.run(keyOf('write'), WRITE, { signal })).pid).toBe(first.pid);
  expect(readFileSync(join(workspace, 'b.txt'), 'utf8')).toBe('x');
});

test('a read whose host dies under it runs again alone on a host that then ends', async () => {
  const { result, pid } = await runs.run(keyOf('read_only'), READ, killing);
  expect(result).toMatchObject({ ok: true, data: { content: 'text\n' } });
  expect(pid).toBe(started[1]?.pid);
  await until(() => started[1]?.alive === false);
});

test('a write whose host dies under it is HOST_CRASHED, and runs no second time', async () => {
  await expect(runs.run(keyOf('write'), WRITE, killing)).rejects.toMatchObject({ code: 'HOST_CRASHED' });
  expect(started.length).toBe(1);
});

test('a job that is aborted before its host is ready starts none, and throws why', async () => {
  const why = new Error('enough');
  await expect(
    runs.run(keyOf('write'), WRITE, { signal: AbortSignal.abort(why), onStarted: () => expect.unreachable() }),
  ).rejects.toBe(why);
  expect(started).toEqual([]);
});

test('a job whose last check throws is not sent', async () => {
  const why = new Error('the policy changed');
  const beforeStart = () => Promise.reject(why);
  await expect(runs.run(keyOf('write'), WRITE, { signal, beforeStart })).rejects.toBe(why);
  expect(started[0]?.jobs).toBe(0);
});

test('a job whose host ends during its last check is HOST_CRASHED, since the check counts for that host', async () => {
  const beforeStart = async () => started[0]?.kill();
  await expect(runs.run(keyOf('read_only'), READ, { signal, beforeStart })).rejects.toMatchObject({
    code: 'HOST_CRASHED',
  });
  expect(started.length).toBe(1);
});
