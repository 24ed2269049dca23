/** The metrics token opens nothing but metrics, and nobody else reads them over HTTP. */
import { existsSync, readFileSync, statSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createClient } from '../../src/client/client.ts';
import { startDaemon, type TestDaemon, until } from '../support/daemon.ts';

let daemon: TestDaemon;
let port: number;
beforeAll(async () => {
  daemon = await startDaemon({ args: ['--listen-http', '0', '--listen', '0'] });
  port = Number(new URL(daemon.listeners.find((it) => it.startsWith('http:')) as string).port);
});
afterAll(() => daemon[Symbol.asyncDispose]());

const tokenOf = (name: string) => readFileSync(join(daemon.stateDir, `${name}.token`), 'utf8').trim();
const bearer = (name: string) => ({ authorization: `Bearer ${tokenOf(name)}` });

/** A request with raw headers, which `fetch` would not send. */
function ask(path: string, headers: Record<string, string> = {}, method = 'GET') {
  return new Promise<{ status: number; type: string; text: string }>((resolve, reject) => {
    const sent = request({ host: '127.0.0.1', port, path, method, headers }, (response) => {
      let text = '';
      response.on('data', (chunk) => (text += chunk));
      const type = response.headers['content-type'] ?? '';
      response.on('end', () => resolve({ status: response.statusCode ?? 0, type, text }));
    });
    sent.on('error', reject).end();
  });
}

describe('metrics over HTTP', () => {
  test.each(['metrics', 'operator'])('the metrics are read with the %s token', async (name) => {
    const answer = await ask('/metrics', bearer(name));
    expect(answer).toMatchObject({ status: 200, type: 'text/plain; version=0.0.4; charset=utf-8' });
    expect(answer.text).toMatch(/^ringfence_build_info\{version="[^"]+"\} 1$/m);
  });

  test('the metrics are refused without a token, with an unknown one, and with that of an agent', async () => {
    for (const headers of [{}, { authorization: 'Bearer nope' }, bearer('agent')])
      expect((await ask('/metrics', headers as Record<string, string>)).status).toBe(401);
  });

  test('the metrics are refused to a page of another origin, and under a rebound name', async () => {
    for (const headers of [{ origin: 'https://evil.example' }, { origin: 'null' }, { host: `evil.example:${port}` }])
      for (const path of ['/metrics', '/healthz', '/readyz'])
        expect((await ask(path, { ...bearer('metrics'), ...(headers as Record<string, string>) })).status).toBe(403);
  });

  test('the metrics refuse every method that does not read', async () => {
    expect((await ask('/metrics', bearer('metrics'), 'POST')).status).toBe(405);
    expect((await ask('/readyz', {}, 'DELETE')).status).toBe(405);
  });
});

test('health and readiness need no token, and say nothing of the daemon', async () => {
  expect(await ask('/healthz')).toMatchObject({ status: 200, text: 'ok\n' });
  expect(await ask('/readyz')).toMatchObject({ status: 200, text: 'ok\n' });
});

describe('the metrics token', () => {
  test('only its owner can read the file of the metrics token', () => {
    expect(statSync(join(daemon.stateDir, 'metrics.token')).mode & 0o777).toBe(0o600);
  });

  test('opens no session, on no way in', async () => {
    const token = tokenOf('metrics');
    const { socket, workspace } = daemon;
    for (const role of ['agent', 'operator'] as const)
      await expect(createClient({ socket, workspace, token, role })).rejects.toMatchObject({ code: -32003 });
    expect((await ask('/mcp', bearer('metrics'), 'POST')).status).toBe(401);
    const webSocket = daemon.listeners.find((it) => it.startsWith('ws:')) as string;
    const { default: WebSocket } = await import('ws');
    const opened = new WebSocket(webSocket, 'ringfence.v1.json', { headers: bearer('metrics') });
    const status = await new Promise((resolve) => {
      opened.once('unexpected-response', (_, response) => resolve(response.statusCode));
      opened.once('open', () => resolve('open'));
    });
    expect(status).toBe(401);
  });

  test('a rotation replaces the metrics token, and the old one is refused at once', async () => {
    const old = bearer('metrics');
    await using operator = await daemon.connect({ role: 'operator' });
    expect(await operator.request('tokens.rotate', { names: ['metrics'] })).toEqual({
      rotated: ['metrics'],
      sessionsEnded: 0,
    });
    expect((await ask('/metrics', old)).status).toBe(401);
    expect((await ask('/metrics', bearer('metrics'))).status).toBe(200);
  });
});

test('a daemon that is shutting down is healthy, but not ready for calls', async () => {
  await using agent = await daemon.connect();
  await using operator = await daemon.connect({ role: 'operator' });
  const call = agent.call('terminal_execute', { command: 'touch begun; sleep 60' }, { callId: 'held' });
  await until(() => existsSync(join(daemon.workspace, 'begun')), 20_000);
  await operator.request('shutdown', { graceMs: 60_000 });
  await until(async () => (await ask('/readyz')).status === 503);
  expect(await ask('/readyz')).toMatchObject({ text: 'not ready: the daemon is shutting down\n' });
  expect(await ask('/healthz')).toMatchObject({ status: 200 });
  await agent.request('calls.cancel', { callId: 'held' });
  expect(await call).toMatchObject({ success: false });
  expect(await daemon.ended).toBe(0);
}, 60_000);
