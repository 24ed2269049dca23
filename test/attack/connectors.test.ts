/** Secrets of connectors: no byte of one is anywhere but in the one request; hostile services and files. */
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { runCli } from '../support/cli.ts';
import { removeTree, startDaemon, type TestDaemon, temporaryDir, until } from '../support/daemon.ts';
import { type Service, startService } from '../support/service.ts';
import { spellings } from '../support/spellings.ts';

const CANARY = 'canary+Secret/9000&x=y';
const POLICY = 'tiers:\n  external_api: { decision: allow }\n';
const FILE = (base: string) => `
connector: probe
base: ${base}
private: true
auth: { kind: bearer, secret: probe_key, setup: "https://keys.example/get" }
operations:
  echo:
    description: Sends a text.
    request: { method: POST, path: /echo, json: { text: "\${input.text}" } }
    input: { text: { type: string, description: Any text. } }
    output: { text: $.text, id: $.id, header: headers.x-echo }
    idempotency: { header: Idempotency-Key, from: callId }
    retry: { on: [429], honour: Retry-After, max: 2 }
`;

let service: Service;
let daemon: TestDaemon;
let client: Client;
let folder: string;

const cli = (args: string[], stdin = '') => runCli(daemon, args, { stdin });
const call = (input: object, options: object = {}) => client.call('probe__echo' as never, input as never, options);
async function errorOf(input: object, options: object = {}) {
  const result = await call(input, options);
  if (result.success) throw new Error(`it succeeded: ${JSON.stringify(result.data)}`);
  return result.error;
}
async function start(stateDir?: string): Promise<void> {
  const limits = { connectorPauseMs: 60_000 };
  daemon = await startDaemon({ policy: POLICY, limits, ...(stateDir && { stateDir }), workspace: join(folder, 'ws') });
  client = await daemon.connect({ role: 'operator' });
}

beforeAll(async () => {
  folder = temporaryDir('connectors');
  execFileSync('mkdir', [join(folder, 'ws')]);
  service = await startService();
  await start(join(folder, 'state'));
  writeFileSync(join(folder, 'probe.yaml'), FILE(service.base));
  expect(await cli(['connector', 'add', join(folder, 'probe.yaml'), '--ca', service.ca])).toMatchObject({ code: 0 });
  const isOn = async () => ((await client.request('status', {})) as { connectors: object[] }).connectors.length === 1;
  await until(isOn);
});
afterAll(async () => {
  await client[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
  await service[Symbol.asyncDispose]();
  removeTree(folder);
});

describe('a secret', () => {
  test('a missing secret ends the call before anything is sent, and the error says where to get one', async () => {
    const sent = service.requests.length;
    expect(await errorOf({ text: 'x' })).toMatchObject({
      code: 'AUTH_REQUIRED',
      suggestion: expect.stringContaining('ringfence secret set probe_key (get one at https://keys.example/get)'),
      details: { auth: 'missing' },
    });
    expect(service.requests.length).toBe(sent);
    expect((await cli(['secret', 'set', 'probe_key'], CANARY)).code).toBe(0);
  });

  test('a secret that a service sends back is hidden in each form, in bodies, headers and errors', async () => {
    const bytes = Buffer.from(CANARY);
    const forms = [
      CANARY,
      encodeURIComponent(CANARY),
      encodeURIComponent(CANARY).replaceAll(/%../g, (it) => it.toLowerCase()),
      ...[0, 1, 2].map((it) => Buffer.concat([Buffer.alloc(it, 'a'), bytes, Buffer.from('tail')]).toString('base64')),
      bytes.toString('base64url'),
    ];
    for (const form of forms) {
      const answer = { headers: { 'X-Echo': `<${form}>` }, body: { text: `before ${form} after` } };
      service.play(answer, { ...answer, status: 422, body: { message: `no: ${form}` } });
      const told = JSON.stringify([await call({ text: 'x' }), await call({ text: 'y' })]);
      expect(told, form).toContain('[secret]');
      expect(told, form).not.toContain(form);
      expect(told, form).not.toContain(bytes.subarray(2, 14).toString('base64').slice(0, 12));
    }
  });

  test.each(Object.entries(spellings(CANARY)).filter(([name]) => name.startsWith('JSON')))(
    'a secret that a service spells as %s does not reach the caller',
    async (_, form) => {
      const headers = { 'content-type': 'application/json' };
      service.play({ headers, body: `{"text":"before ${form} after"}` });
      service.play({ headers, status: 422, body: `{"message":"no: ${form}"}` });
      const shown = JSON.stringify([await call({ text: 'x' }), await call({ text: 'y' })]);
      expect(shown.match(/\[secret\]/g)).toHaveLength(2);
      expect(shown).not.toContain(CANARY.slice(0, 12));
    },
  );

  test('a redirect of a service is not followed, so the secret does not reach the other host', async () => {
    const sent = service.requests.length;
    service.play({ status: 307, headers: { location: `${service.base}/elsewhere` } });
    expect(await errorOf({ text: 'x' })).toMatchObject({ code: 'UPSTREAM_FAILED' });
    expect(service.requests.length).toBe(sent + 1);
  });

  test('a connector file that would send a secret to another host is not added', async () => {
    writeFileSync(
      join(folder, 'evil.yaml'),
      FILE('https://evil.example').replace('connector: probe', 'connector: evil'),
    );
    expect(await cli(['connector', 'add', join(folder, 'evil.yaml')])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('would send it to evil.example:443'),
    });
  });

  test('a secret stays in its own file: not in state, record, log, arguments, environments or commands', async () => {
    service.always(() => ({ body: { text: CANARY } }));
    await call({ text: 'x' });
    await errorOf({ text: 1 });
    const commanded = await client.call('terminal_execute', { command: `env; cat ${join(folder, 'state')}/secrets/*` });
    const searched = [daemon.log(), JSON.stringify(commanded)];
    for (const path of readdirSync(daemon.stateDir, { recursive: true, encoding: 'utf8' })) {
      if (path.startsWith('secrets') || path.endsWith('.sock')) continue;
      searched.push(
        execFileSync('sh', ['-c', 'test -f "$1" && cat "$1" || true', 'sh', join(daemon.stateDir, path)], {
          encoding: 'latin1',
          maxBuffer: 1e9,
        }),
      );
    }
    for (const pid of readdirSync('/proc').filter((it) => /^\d+$/.test(it)))
      for (const file of ['environ', 'cmdline'])
        try {
          searched.push(readFileSync(`/proc/${pid}/${file}`, 'latin1'));
        } catch {
          // ENOENT, EACCES: it ended, or belongs to somebody else.
        }
    for (const form of [CANARY, encodeURIComponent(CANARY), Buffer.from(CANARY).toString('base64')])
      expect(searched.filter((it) => it.includes(form))).toEqual([]);
    service.always(() => ({ body: {} }));
  });
});

describe('a service', () => {
  test.each([
    ['sends no JSON', { headers: { 'content-type': 'application/json' }, body: '{"a":' }],
    ['sends more than is read', { body: { text: 'x'.repeat(2_000_000) } }],
  ])('a service that %s fails the call and nothing else', async (_, answer) => {
    service.play(answer);
    expect(await errorOf({ text: 'x' })).toMatchObject({ code: 'UPSTREAM_FAILED' });
  });

  test('a deeply nested answer of a service reaches the caller flattened', async () => {
    service.play({
      headers: { 'content-type': 'application/json' },
      body: `{"text":${'['.repeat(200_000)}${']'.repeat(200_000)}}`,
    });
    const result = await call({ text: 'x' });
    expect(JSON.stringify(result)).toContain('…');
  });

  test('a service that never answers ends with the call, and the next call is made', async () => {
    service.play('hang');
    expect(await errorOf({ text: 'x' }, { timeoutMs: 500 })).toMatchObject({ code: 'TIMEOUT' });
    service.play({ body: { text: 'again' } });
    expect(await call({ text: 'x' })).toMatchObject({ success: true, data: { text: 'again' } });
  });

  test('a service that fails again and again is not asked for a while', async () => {
    const sent = service.requests.length;
    service.play('cut', 'cut', 'cut', 'cut', 'cut');
    for (let at = 0; at < 5; at++) expect(await errorOf({ text: 'x' })).toMatchObject({ code: 'UPSTREAM_FAILED' });
    expect(await errorOf({ text: 'x' })).toMatchObject({ details: { retryAfterMs: expect.any(Number) } });
    expect(service.requests.length).toBe(sent + 5);
    expect((await cli(['status'])).stdout).toMatch(/connector probe +paused/);
  });
});

test('a call that is repeated after the daemon was killed has the same key, another call another one', async () => {
  await client[Symbol.asyncDispose]();
  daemon.process.kill('SIGKILL');
  await daemon.ended;
  await start(join(folder, 'state'));
  service.play('hang');
  const sent = service.requests.length;
  const first = call({ text: 'once' }, { callId: 'payment-1' }).catch(() => undefined);
  await until(() => service.requests.length === sent + 1);
  daemon.process.kill('SIGKILL');
  await daemon.ended;
  await first;
  await start(join(folder, 'state'));
  service.play({ body: { id: 1 } }, { body: { id: 2 } });
  await call({ text: 'once' }, { callId: 'payment-1' });
  await call({ text: 'once' }, { callId: 'payment-2' });
  const keys = service.requests.slice(sent).map((it) => /Idempotency-Key: (\S+)/.exec(it)?.[1]);
  expect(keys[0]).toMatch(/^ringfence-/);
  expect([keys[1], keys[2] === keys[0]]).toEqual([keys[0], false]);
});

test('a pinned connector that was changed is off, with the reason', async () => {
  const pinned = join(daemon.stateDir, 'connectors/probe.json');
  writeFileSync(pinned, readFileSync(pinned, 'utf8').replace('/echo', '/other'));
  await until(async () => {
    const { connectors } = (await client.request('status', {})) as { connectors: { problem?: string }[] };
    return connectors[0]?.problem?.includes('was changed since it was added') === true;
  });
  expect(await errorOf({ text: 'x' })).toMatchObject({ code: 'TOOL_NOT_FOUND' });
  expect((await cli(['connector', 'list'])).code).toBe(1);
});
