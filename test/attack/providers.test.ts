/** Misbehaving servers of external providers, through a real daemon. */
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { serveEndless } from '../fixtures/providers/endless.ts';
import { processesWith, until } from '../support/daemon.ts';
import { FIXTURE, startProvider, temporaryWorkspace } from '../support/providers.ts';

const QUICK = { providerBackoffMs: 20, providerBackoffMsMax: 100 };

describe('a server of a provider', () => {
  test("a provider's server has the variables that were configured, and no descriptors of the daemon", async () => {
    await using it = await startProvider({ ...FIXTURE, env: { GREETING: 'hello' } }, { env: { SECRET_OF_MINE: 'x' } });
    const environment = JSON.parse(await it.text('fix__environment')) as Record<string, string>;
    expect(
      Object.keys(environment)
        .filter((name) => !['LANG', 'TZ', 'LANGUAGE'].includes(name) && !name.startsWith('LC_'))
        .toSorted(),
    ).toEqual(['GREETING', 'HOME', 'PATH']);
    const descriptors = JSON.parse(await it.text('fix__descriptors')) as string[];
    // Only its own three and those that Node opened.
    expect(descriptors.filter((one) => one.startsWith('socket:'))).toHaveLength(3);
  });

  test('sees no workspace, no home, no network and not the daemon', async () => {
    await using it = await startProvider();
    const { daemon } = it;
    const server = createServer().listen(0, '127.0.0.1');
    try {
      await until(() => server.listening);
      const { port } = server.address() as AddressInfo;
      expect(await it.text('fix__connect', { port })).toBe('ECONNREFUSED');
    } finally {
      server.close();
    }
    writeFileSync(join(daemon.workspace, 'a.txt'), 'mine');
    for (const path of [
      join(daemon.workspace, 'a.txt'),
      join(daemon.stateDir, 'operator.token'),
      `/proc/${daemon.pid}/environ`,
    ])
      expect(await it.text('fix__read', { path })).toBe('ENOENT');
    expect(await it.text('fix__write', { path: '/usr/x' })).toBe('EROFS');
  });

  test('reaches what the operator lists, by the proxy, and nothing else', async () => {
    const server = createServer((_, response) => response.end('an answer')).listen(0, '127.0.0.1');
    try {
      await until(() => server.listening);
      const { port } = server.address() as AddressInfo;
      await using it = await startProvider({
        ...FIXTURE,
        network: [`127.0.0.1:${port}`],
        env: { NO_PROXY: '', no_proxy: '' },
      });
      expect(await it.text('fix__connect', { port })).toBe('ECONNREFUSED');
      expect(await it.text('fix__fetch', { url: `http://127.0.0.1:${port}/` })).toBe('an answer');
      expect(await it.text('fix__fetch', { url: `http://127.0.0.1:${port + 1}/` })).toContain(
        'not let this command connect',
      );
    } finally {
      server.close();
    }
  });

  test("a provider's server of the tier read_only reads the workspace without its secrets, and writes nothing", async () => {
    using folder = temporaryWorkspace();
    const workspace = folder.path;
    writeFileSync(join(workspace, 'a.txt'), 'mine');
    writeFileSync(join(workspace, '.env'), 'KEY=1');
    await using it = await startProvider({ ...FIXTURE, tier: 'read_only', workspace }, { workspace });
    expect(await it.text('fix__read', { path: 'a.txt' })).toBe('mine');
    expect(await it.text('fix__read', { path: '.env' })).not.toContain('KEY');
    expect(await it.text('fix__write', { path: 'b.txt' })).toBe('EROFS');
    // Before the next call, the sandbox is replaced by one that masks the new file.
    const pid = (await it.info()).pid;
    writeFileSync(join(workspace, '.env.local'), 'KEY=2');
    expect(await it.text('fix__read', { path: '.env.local' })).not.toContain('KEY');
    expect((await it.info()).pid).not.toBe(pid);
  });

  test("a provider's server of the tier write changes its workspace except for protected files", async () => {
    using folder = temporaryWorkspace();
    const workspace = folder.path;
    await using it = await startProvider({ ...FIXTURE, tier: 'write', workspace }, { workspace });
    expect(await it.text('fix__write', { path: 'b.txt' })).toBe('undefined');
    expect(readFileSync(join(workspace, 'b.txt'), 'utf8')).toBe('written');
  });

  test("a provider's server that crashes under a call ends that call, and is up again for the next", async () => {
    await using it = await startProvider(FIXTURE, { limits: QUICK });
    const { code, message } = await it.error('fix__crash');
    expect({ code, message }).toMatchObject({ code: 'PROVIDER_UNAVAILABLE' });
    await it.ready();
    expect(await it.text('fix__echo', { text: 'x' })).toBe('x');
    expect(await it.info()).toMatchObject({ restarts: 1, reason: 'the server ended (exit code 3)' });
  });

  test.each(['babble', 'long'])(
    "a provider's server that sends more than it may (%s) is ended, and no other call waits for it",
    async (tool) => {
      await using it = await startProvider(FIXTURE, { limits: QUICK });
      writeFileSync(join(it.daemon.workspace, 'a.txt'), 'text');
      const nuisance = it.error(`fix__${tool}`, tool === 'long' ? { bytes: 50 * 1024 * 1024 } : {});
      const times: number[] = [];
      for (let turn = 0; turn < 20; turn++) {
        const from = performance.now();
        expect(await it.client.call('file_read', { path: 'a.txt' }, { cache: false })).toMatchObject({ success: true });
        times.push(performance.now() - from);
      }
      // The median: a busy machine may delay some.
      expect(times.toSorted((a, b) => a - b)[10]).toBeLessThan(1000);
      expect(await nuisance).toMatchObject({ code: 'PROVIDER_UNAVAILABLE' });
      await it.ready();
      expect(await it.text('fix__echo', { text: 'x' })).toBe('x');
      expect((await it.info()).reason).toContain(tool === 'long' ? 'a message of more than' : 'messages in a second');
    },
  );

  test.each([
    ['babble', 'messages in a second'],
    ['long', 'a message of more than'],
    ['lines', 'a message of more than'],
  ])('elsewhere that sends more than it may (%s) is ended', async (tool, reason) => {
    await using server = await serveEndless();
    // A busy machine reads fewer messages per second than the default limit.
    await using it = await startProvider(
      { url: server.url },
      { limits: { ...QUICK, providerMessagesPerSecond: 1000 } },
    );
    expect(await it.error(`fix__${tool}`)).toMatchObject({ code: 'PROVIDER_UNAVAILABLE' });
    await it.ready();
    expect((await it.info()).reason).toContain(reason);
  });

  test('gets no larger result through than it may', async () => {
    await using it = await startProvider({ ...FIXTURE, outputBytes: 10_000 });
    expect(await it.error('fix__long', { bytes: 20_000 })).toMatchObject({ code: 'OUTPUT_LIMIT' });
    expect(await it.text('fix__echo', { text: 'x' })).toBe('x');
  });

  test.each([
    ['with the control groups that there are', {}],
    ['without control groups', { cgroup: 'none' }],
  ])("a provider's server that takes more memory than it may (%s) is ended", async (_, config) => {
    await using it = await startProvider({ ...FIXTURE, memoryMb: 400 }, { limits: QUICK, config });
    expect(await it.error('fix__eat', { mb: 600 })).toMatchObject({ code: 'PROVIDER_UNAVAILABLE' });
    await it.ready();
    expect(await it.text('fix__echo', { text: 'x' })).toBe('x');
  });

  test("a process that a provider's server leaves behind ends when the server ends", async () => {
    const [mark, own] = [`left-by-provider-${process.pid}`, `provider-that-leaves-${process.pid}`];
    {
      await using it = await startProvider({ ...FIXTURE, command: [...FIXTURE.command, own] }, { limits: QUICK });
      await it.text('fix__leave', { mark });
      expect(processesWith(mark)).not.toEqual([]);
      await it.error('fix__crash');
      await until(() => processesWith(mark).length === 0);
      await it.ready();
      await it.text('fix__leave', { mark });
    }
    expect(processesWith(mark)).toEqual([]);
    expect(processesWith(own)).toEqual([]);
  });

  test("a provider's server that sends its client a request gets the answer that the method does not exist", async () => {
    await using it = await startProvider();
    expect(await it.text('fix__ask')).toMatch(/roots|Method not found/);
    expect(await it.text('fix__echo', { text: 'x' })).toBe('x');
  });

  test("a secret that a provider's server prints reaches neither the caller nor the log", async () => {
    const token = 'a-token-of-forty-characters';
    const fix = { ...FIXTURE, env: { TOKEN: { env: 'MY_TOKEN' } } };
    await using it = await startProvider(fix, { env: { MY_TOKEN: token } });
    expect(await it.text('fix__complain')).toBe('the token is [secret]');
    await until(() => it.daemon.log().includes('complaint'));
    expect(it.daemon.log()).not.toContain(token);
  });
});

test('a provider that never comes up delays nothing, and says why it is not there', async () => {
  const providers = { silent: { command: ['sleep', '1000'] }, missing: { command: ['/nonexistent'] } };
  const limits = { ...QUICK, providerStartMs: 8000 };
  await using it = await startProvider(FIXTURE, { limits, config: { providers } });
  await until(async () => (await it.info('missing')).restarts > 1);
  expect((await it.info('missing')).reason).toContain('ENOENT');
  await until(async () => (await it.info('silent')).reason !== undefined);
  expect((await it.info('silent')).reason).toContain('not ready within 8000 ms');
});

test('a provider that is not called for a while is ended, and started by the next call', async () => {
  await using it = await startProvider({ ...FIXTURE, idleMs: 1000 });
  const { pid } = await it.info();
  await until(async () => (await it.info()).state === 'idle');
  expect(await it.text('fix__echo', { text: 'x' })).toBe('x');
  expect((await it.info()).pid).not.toBe(pid);
});
