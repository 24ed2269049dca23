/** Plugins: added, listed, called, replaced and removed while a daemon runs. */
import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { ToolResult } from '../../src/base/call.ts';
import type { Client } from '../../src/client/client.ts';
import { dataOf, type OpenDaemon, openDaemon, ringfence, temporaryDir, until } from '../support/daemon.ts';
import { addPlugin, type PluginText, writePlugin } from '../support/plugin.ts';

const execute = promisify(execFile);
const POLICY = `tiers:
  execute: { decision: allow }
tools:
  probe__denied: { decision: deny }
  probe__slow: { decision: allow, timeoutMs: 300 }
rules:
  - { id: kept, match: { path: kept.txt }, decision: deny, reason: It stays with the person. }
`;

const value = { type: 'object', properties: { value: {} } };
const path = { type: 'object', properties: { path: { type: 'string', description: 'A path.' } }, required: ['path'] };
const TOOLS = [
  { name: 'read', input: path, capabilities: ['fs.read'], effects: [{ kind: 'read', target: '${input.path}' }] },
  { name: 'quiet', export: 'read', input: path, capabilities: ['fs.read'] },
  { name: 'tools', tier: 'write', capabilities: ['fs.read'] },
  { name: 'throws' },
  { name: 'wrong', output: { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] } },
  { name: 'logs' },
  { name: 'denied' },
  { name: 'slow' },
  {
    name: 'staged',
    initialize: 'ready',
    cleanup: 'tidy',
    input: { type: 'object', properties: { fails: { type: 'boolean', description: 'Whether it fails.' } } },
  },
  {
    name: 'shaped',
    output: value,
    input: {
      type: 'object',
      properties: {
        word: { type: 'string', pattern: '^[a-z]+$', description: 'A word.' },
        n: { type: 'integer', default: 7, minimum: 1, description: 'A number.' },
      },
      required: ['word'],
    },
  },
];
const MAIN = `import { twice } from './lib/twice.js';
export const read = async ({ path }, { tools }) => ({ value: (await tools.file_read({ path })).content });
export const tools = (_, { tools }) => ({ value: Object.keys(tools) });
export function throws() {
  const nothing = null;
  return nothing.x;
}
export const wrong = () => ({ n: 'one' });
export const logs = (_, { console }) => { console.log('so', { far: 1 }); return { value: 1 } };
export const denied = () => ({ value: 1 });
let state = 'cold';
export const ready = ({ console }) => { state = 'ready'; console.log('before'); };
export const tidy = ({ console }) => console.log('after');
export const staged = ({ fails }) => { if (fails) throw new Error('no'); return { value: state }; };
export const slow = () => new Promise(() => {});
export const shaped = ({ word, n }) => ({ value: twice(word) + n });
`;
const probe = (isolation: 'isolate' | 'compartment'): PluginText => ({
  isolation,
  tools: TOOLS,
  files: { 'main.js': MAIN, 'lib/twice.js': 'export const twice = (text) => text + text;\n' },
});

const folders: string[] = [];
const written = (plugin: PluginText) => {
  folders.push(writePlugin(plugin));
  return folders.at(-1) as string;
};
afterAll(() => {
  for (const it of folders) rmSync(it, { recursive: true });
});

describe.each(['isolate', 'compartment'] as const)('a tool in a %s', (isolation) => {
  let daemon: OpenDaemon;
  let client: Client;

  beforeAll(async () => {
    daemon = await openDaemon({ policy: POLICY });
    client = await daemon.connect();
    for (const name of ['notes.txt', 'kept.txt']) writeFileSync(join(daemon.workspace, name), 'one\n');
    await addPlugin(daemon, written(probe(isolation)));
  });
  afterAll(async () => {
    await client[Symbol.asyncDispose]();
    await daemon[Symbol.asyncDispose]();
  });
  const call = (tool: string, input: object = {}, options: object = {}) =>
    client.call(`probe__${tool}`, input, options) as PromiseLike<ToolResult>;
  const given = async (tool: string, input: object = {}) =>
    ((await dataOf(call(tool, input) as never)) as { value: unknown }).value;

  test('gives its data, which is what its manifest says', async () => {
    expect(await given('read', { path: 'notes.txt' })).toBe('one\n');
    expect(await given('shaped', { word: 'ab' })).toBe('abab7');
    expect(await call('wrong')).toMatchObject({
      success: false,
      error: { code: 'CODE_ERROR', message: expect.stringContaining('n must be integer') },
    });
  });

  test("a plugin's tool can make the calls of its capabilities and no others", async () => {
    const tools = (await given('tools')) as string[];
    expect(tools).toContain('file_read');
    expect(tools.filter((it) => /write|execute|run|__/.test(it))).toEqual([]);
  });

  test('refuses what its schema refuses, patterns too, and names it', async () => {
    for (const input of [{}, { word: 'ab', n: 0 }, { word: 'A1' }, { word: 'a', more: 1 }])
      expect(await call('shaped', input)).toMatchObject({ success: false, error: { code: 'INPUT_INVALID' } });
  });

  test('tells file, line and column of what it throws', async () => {
    expect(await call('throws')).toMatchObject({
      error: { code: 'CODE_ERROR', details: { name: 'TypeError', file: 'main.js', line: 6, column: 18 } },
    });
  });

  test("a plugin's tool is held to the policy by its name, by its declared effects, and by each call that it makes", async () => {
    expect(await call('denied')).toMatchObject({ error: { code: expect.stringMatching(/DENIED|NOT_FOUND/) } });
    expect(await call('read', { path: 'kept.txt' })).toMatchObject({ error: { code: 'POLICY_DENIED', rule: 'kept' } });
    expect(await call('quiet', { path: 'kept.txt' })).toMatchObject({
      error: { code: 'CODE_ERROR', details: { name: 'ToolError', code: 'POLICY_DENIED' } },
    });
  });

  test("a plugin's tool is listed only if the policy could allow it", async () => {
    const names = (await client.tools()).map((it) => it.name);
    expect(names).toContain('probe__read');
    expect(names).not.toContain('probe__denied');
  });

  test('runs the functions that its manifest names before and after each call, also one that throws', async () => {
    for (const fails of [false, true]) {
      const callId = `staged-${fails}-${isolation}`;
      const result = await call('staged', { fails }, { callId });
      expect(result).toMatchObject(fails ? { error: { code: 'CODE_ERROR' } } : { data: { value: 'ready' } });
      const { entries } = (await client.request('results.read', { callId, afterSeq: 0 })) as {
        entries: { data: Uint8Array }[];
      };
      expect(entries.map((it) => Buffer.from(it.data).toString()).join('')).toBe('before\nafter\n');
    }
  });

  test('ends at its time, and the next call is answered', async () => {
    expect(await call('slow')).toMatchObject({ error: { code: 'TIMEOUT', details: { limit: 300 } } });
    expect(await given('shaped', { word: 'x' })).toBe('xx7');
  });

  test('ends with its cancellation', async () => {
    const callId = `cancelled-${isolation}`;
    const running = call('slow', {}, { callId });
    await until(async () => (await client.record(callId)).state.status === 'in-progress');
    await client.request('calls.cancel', { callId });
    expect(await running).toMatchObject({ error: { code: 'CANCELLED' } });
  });

  test('writes to the output of its call', async () => {
    const callId = `logged-${isolation}`;
    await dataOf(call('logs', {}, { callId }) as never);
    const { entries } = (await client.request('results.read', { callId, afterSeq: 0 })) as {
      entries: { stream: string; data: Uint8Array }[];
    };
    expect(entries.map((it) => [it.stream, Buffer.from(it.data).toString()])).toEqual([['stderr', 'so {"far":1}\n']]);
  });

  test("a call of a plugin's tool is recorded with the calls that it made", async () => {
    const callId = `parent-${isolation}`;
    // Nobody has read this file yet: the record says of a call that a kept result answered it.
    writeFileSync(join(daemon.workspace, `${callId}.txt`), 'new');
    await dataOf(call('read', { path: `${callId}.txt` }, { callId }) as never);
    await using operator = await daemon.connect({ role: 'operator' });
    const { entries } = (await operator.request('audit.query', { tool: 'file_read' })) as {
      entries: { detail?: object }[];
    };
    expect(entries.map((it) => it.detail)).toContainEqual({ parentCallId: callId });
  });

  test("a plugin's tool is listed with the hash of its code in its version, and the record has the whole hash", async () => {
    const [tool] = (await client.tools()).filter((it) => it.name === 'probe__read');
    await using operator = await daemon.connect({ role: 'operator' });
    const { entries } = (await operator.request('audit.query', { kind: 'policy' })) as {
      entries: { detail?: { plugin?: string; sha256?: string } }[];
    };
    const hash = entries.find((it) => it.detail?.plugin === 'probe')?.detail?.sha256 as string;
    expect(tool?.version).toBe(`1.0.0+${hash.slice(0, 12)}`);
  });
});

describe('ringfence plugin', () => {
  const cli = (...words: string[]) => execute(process.execPath, [ringfence, 'plugin', ...words]);
  const failed = async (...words: string[]) =>
    (await cli(...words).then(
      () => ({ code: 0, stderr: '' }),
      (error: unknown) => error,
    )) as { code: number; stderr: string };

  test('adds, lists, replaces and removes; a running daemon follows at once', async () => {
    await using daemon = await openDaemon({ policy: POLICY });
    await using client = await daemon.connect();
    const names = async () => (await client.tools()).map((it) => it.name).filter((it) => it.includes('__'));
    const state = ['--state', daemon.stateDir];
    const folder = written({ files: { 'main.js': 'export const run = () => ({ value: 1 });' } });
    const { stdout } = await cli('add', folder, ...state);
    expect(stdout).toMatch(
      /probe 1\.0\.0.*\nsha256:[0-9a-f]{64}[\s\S]*probe__run {2}read_only\n {2}may call: no tools/,
    );
    await until(async () => (await names()).includes('probe__run'));

    // Changes of its folder have no effect until it is added again.
    writeFileSync(join(folder, 'main.js'), 'export const run = () => ({ value: 2 });');
    expect(await dataOf(client.call('probe__run', {}) as never)).toEqual({ value: 1 });
    const { stdout: shown } = await cli('add', folder, ...state, '--json');
    const { sha256 } = JSON.parse(shown) as { sha256: string };
    await until(async () => ((await dataOf(client.call('probe__run', {}) as never)) as { value: number }).value === 2);
    expect((await failed('add', folder, ...state, '--sha256', sha256.replace(/^./, 'x'))).stderr).toContain(sha256);
    expect(JSON.parse((await cli('list', ...state, '--json')).stdout)).toMatchObject([{ name: 'probe', sha256 }]);

    await cli('remove', 'probe', ...state);
    await until(async () => (await names()).length === 0);
    expect(await client.call('probe__run', {})).toMatchObject({ error: { code: 'TOOL_NOT_FOUND' } });
    expect(await failed('remove', 'probe', ...state)).toMatchObject({ code: 1 });
    // Starts the command line six times, on a machine that may be busy.
  }, 90_000);

  test.each([
    [
      'an import of what is no module of it',
      { 'main.js': "import fs from 'node:fs'; export const run = 1" },
      'imports node:fs',
    ],
    ['a syntax error', { 'main.js': 'export const run = ;' }, 'main.js: Unexpected token'],
    ['no module', {}, 'the plugin has no file main.js'],
  ])('check says what is wrong: %s', async (_, files, message) => {
    expect(await failed('check', written({ files: files as Record<string, string> }))).toMatchObject({
      code: 2,
      stderr: expect.stringContaining(message),
    });
  });

  test('refuses in a compartment what has no form there', async () => {
    const files = { 'main.js': "export * from './a.js'", 'a.js': '' };
    expect((await failed('check', written({ isolation: 'compartment', files }))).stderr).toContain('`export *`');
    const meta = { 'main.js': 'export const run = () => import.meta.url' };
    expect((await failed('check', written({ isolation: 'compartment', files: meta }))).stderr).toMatch(/import\.meta/);
  });
});

test("a plugin's health check says whether it works, cannot call a tool, and ends in time", async () => {
  await using daemon = await openDaemon({ limits: { healthCheckMs: 6_000 } });
  const code = `
    export const run = () => ({ value: 1 });
    export const well = () => ({ ok: true });
    export const ill = () => ({ ok: false, message: 'the service is away' });
    export const throws = () => { throw new Error('no key'); };
    export const reaches = (_, { tools }) => ({ ok: Object.keys(tools).length === 0, message: 'it has tools' });
    export const ever = () => new Promise(() => {});`;
  const probe = (name: string, checks: readonly string[]): PluginText => ({
    name,
    tools: checks.map((healthCheck) => ({
      ...{ name: healthCheck, export: 'run', capabilities: ['fs.read'] },
      healthCheck,
    })),
    files: { 'main.js': code },
  });
  await addPlugin(daemon, written(probe('fine', ['well', 'reaches'])));
  await addPlugin(daemon, written(probe('bad', ['ill', 'throws', 'ever'])));
  await addPlugin(daemon, written({ name: 'none', files: { 'main.js': code } }));
  await using operator = await daemon.connect({ role: 'operator' });
  const { plugins } = (await operator.request('status', { health: true })) as { plugins: Record<string, string>[] };
  expect(plugins.map(({ name, health }) => [name, health])).toEqual([
    ['bad', expect.stringMatching(/ill: the service is away; throws: .*no key.*; ever: no answer within 6000 ms/)],
    ['fine', 'ok'],
    ['none', undefined],
  ]);
}, 60_000);

test('a plugin that a daemon finds changed when it starts is off, and says so', async () => {
  const stateDir = temporaryDir('state');
  mkdirSync(stateDir, { recursive: true });
  const folder = written({ files: { 'main.js': 'export const run = () => ({ value: 1 });' } });
  await execute(process.execPath, [ringfence, 'plugin', 'add', folder, '--state', stateDir]);
  const pinned = join(stateDir, 'plugins/probe.json');
  expect(existsSync(pinned)).toBe(true);
  writeFileSync(pinned, readFileSync(pinned, 'utf8').replace('value: 1', 'value: 3'));
  {
    await using daemon = await openDaemon({ stateDir });
    await using operator = await daemon.connect({ role: 'operator' });
    expect(await operator.call('probe__run', {})).toMatchObject({ error: { code: 'TOOL_NOT_FOUND' } });
    const { plugins } = (await operator.request('status', {})) as { plugins: object[] };
    expect(plugins).toMatchObject([{ name: 'probe', state: 'off', problem: expect.stringContaining('was changed') }]);
    expect(daemon.log()).toContain('plugin probe is off');
  }
  rmSync(stateDir, { recursive: true });
});
