/** Kills a daemon between intent and outcome: no call id takes effect twice in any session that it belongs to. */
import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createClient } from '../../src/client/client.ts';
import { cuttable } from '../support/cuttable.ts';
import { processesWith, startDaemon, temporaryDir, until } from '../support/daemon.ts';

let stateDir: string;
let workspace: string;
beforeEach(() => {
  [stateDir, workspace] = [temporaryDir('state'), temporaryDir('ws')];
});
afterEach(() => {
  for (const it of [stateDir, workspace]) rmSync(it, { recursive: true, force: true });
});

const UNKNOWN = { success: false, error: { code: 'HOST_CRASHED', details: { outcome: 'unknown' } } };
const lines = (name: string): string[] => {
  try {
    return readFileSync(join(workspace, name), 'utf8').split('\n').slice(0, -1);
  } catch {
    return []; // ENOENT: nothing written yet.
  }
};

test('a client that comes back after kill -9 has its session and its ids: a command that was cut off is unknown, never run again', async () => {
  const first = await startDaemon({ stateDir, workspace });
  await using client = await createClient({ socket: first.socket, workspace, resumeMs: 20_000 });
  const { session } = await client.hello;
  const call = (command: string, callId: string) => client.call('terminal_execute', { command }, { callId });
  expect(await call('echo done >>log; echo first', 'done')).toMatchObject({ success: true });
  const cut = call('echo cut >>log; exec -a marker-killed-daemon sleep 60', 'cut');
  await until(() => lines('log').length === 2);
  first.process.kill('SIGKILL');
  await first.ended;
  await until(() => processesWith('marker-killed-daemon').length === 0);

  await using _second = await startDaemon({ stateDir, workspace });
  expect(await cut).toMatchObject(UNKNOWN);
  expect((await client.hello).session.id).toBe(session.id);
  expect(await call('echo cut >>log; exec -a marker-killed-daemon sleep 60', 'cut')).toMatchObject(UNKNOWN);
  expect(await call('echo done >>log; echo first', 'done')).toMatchObject({
    success: true,
    data: { stdout: 'first\n' },
  });
  expect(await call('echo other >>log', 'done')).toMatchObject({ error: { code: 'CONFLICT' } });
  expect(await client.record('cut')).toMatchObject({ state: { status: 'error' } });
  expect(lines('log')).toEqual(['done', 'cut']);
});

test('two hundred writes under way at a kill each happen at most once, though the client asks again', async () => {
  const calls = 200;
  const first = await startDaemon({ stateDir, workspace });
  await using client = await createClient({ socket: first.socket, workspace, resumeMs: 30_000 });
  const running = Array.from({ length: calls }, (_, at) =>
    client.call('terminal_execute', { command: `echo ${at} >>effects` }, { callId: `w${at}` }),
  );
  await until(() => lines('effects').length > calls / 8, 20_000);
  first.process.kill('SIGKILL');
  await first.ended;
  const before = lines('effects').length;
  expect(before).toBeLessThan(calls);
  await using _second = await startDaemon({ stateDir, workspace });
  const results = await Promise.all(running);
  const effects = lines('effects');
  expect(effects.length).toBe(new Set(effects).size);
  for (const [at, result] of results.entries()) {
    if (result.success) expect(effects).toContain(`${at}`);
    else expect(result).toMatchObject(UNKNOWN);
  }
  // Calls that had not begun ran now, for the first time.
  expect(results.filter((it) => !it.success).length).toBeLessThanOrEqual(12);
}, 60_000);

test('a detached call that a kill cut off is unknown to every session of its principal, one that waited has done nothing', async () => {
  const wait = 'tiers:\n  execute: { decision: ask }\napprovals: { headless: wait }\n';
  const first = await startDaemon({ stateDir, workspace });
  const client = await first.connect();
  const begun = client.call(
    'terminal_execute',
    { command: 'echo x >>log; sleep 60' },
    { callId: 'cut', detached: true },
  );
  begun.catch(() => {}); // The daemon is killed.
  await until(() => lines('log').length === 1);
  first.process.kill('SIGKILL');
  await first.ended;
  await client[Symbol.asyncDispose]();

  const second = await startDaemon({ stateDir, workspace, policy: wait });
  const by = await second.connect();
  expect((await by.record('cut')).result).toMatchObject(UNKNOWN);
  expect(
    await by.call('terminal_execute', { command: 'echo x >>log; sleep 60' }, { callId: 'cut', detached: true }),
  ).toMatchObject(UNKNOWN);
  by.call('terminal_execute', { command: 'echo y >>log' }, { callId: 'asks', detached: true }).catch(() => {}); // The daemon is killed.
  await until(async () => (await by.record('asks')).state.status === 'blocked-on-user');
  second.process.kill('SIGKILL');
  await second.ended;
  await by[Symbol.asyncDispose]();

  await using third = await startDaemon({ stateDir, workspace, policy: wait });
  await using last = await third.connect();
  expect((await last.record('asks')).result).toMatchObject({
    error: { code: 'HOST_CRASHED', details: { outcome: 'none' } },
  });
  expect(lines('log')).toEqual(['x']);
});

test('a session whose client stays away is gone after a restart too', async () => {
  const first = await startDaemon({ stateDir, workspace });
  await using way = await cuttable(first);
  const client = await createClient({ socket: way.socket, workspace, resumeMs: 300 });
  const { id: sessionId, secret } = (await client.hello).session;
  first.process.kill('SIGKILL');
  await first.ended;
  await client[Symbol.asyncDispose]();
  await using second = await startDaemon({ stateDir, workspace });
  const ask = async () => {
    const { RawPeer } = await import('../support/raw-peer.ts');
    const raw = new RawPeer(second.socket);
    const { error } = await raw.hello({ workspace, resume: { sessionId, secret: `${secret}0` } });
    raw.socket.destroy();
    return error?.code;
  };
  expect(await ask()).toBe(-32004);
  await until(async () => {
    const { DatabaseSync } = await import('node:sqlite');
    using database = new DatabaseSync(join(stateDir, 'calls.db'), { readOnly: true });
    return (
      (database.prepare('SELECT count(*) AS n FROM sessions WHERE expires_ms > ?').get(Date.now()) as { n: number })
        .n === 0
    );
  });
});
