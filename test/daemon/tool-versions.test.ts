/** Versions of a tool beside each other, and tools that are deprecated. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { defaultLimits as limits } from '../../src/base/limits.ts';
import { type Client, createClient, type ToolInfo } from '../../src/client/client.ts';
import { FILE, toConnector } from '../../src/services/connectors/connector.ts';
import { toToolset as connectorTools } from '../../src/services/connectors/toolset.ts';
import { toPlugin } from '../../src/services/plugins/package.ts';
import { toolsOf } from '../../src/tools/registry.ts';
import { runsBy } from '../../src/tools/runs.ts';
import { type OpenDaemon, openDaemon, removeTree } from '../support/daemon.ts';
import { addPlugin, manifestOf, writePlugin } from '../support/plugin.ts';

const CODE = `export const run = () => ({ value: 'new' });
export const old = () => ({ value: 'old' });
export const gone = () => ({ value: 'gone' });
`;
const DEPRECATED = { replacement: 'probe__run', reason: 'It forgets half.' };
const TOOLS = [
  { name: 'run@1', export: 'old', deprecated: DEPRECATED },
  { name: 'run@2' },
  { name: 'gone', deprecated: { replacement: 'probe__run' } },
];

let daemon: OpenDaemon;
let client: Client;
beforeAll(async () => {
  daemon = await openDaemon();
  const folder = writePlugin({ tools: TOOLS, files: { 'main.js': CODE } });
  await addPlugin(daemon, folder);
  removeTree(folder);
  client = await daemon.connect();
});
afterAll(async () => {
  await client[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});

const called = async (tool: string, by = client) => {
  const result = await by.call(tool, {});
  return result.success ? (result.data as { value: string }).value : result.error.code;
};

test('the bare name is the newest version, and each is called by its number', async () => {
  expect(await called('probe__run')).toBe('new');
  expect(await called('probe__run@2')).toBe('new');
  expect(await called('probe__run@1')).toBe('old');
  expect(await called('probe__run@3')).toBe('TOOL_NOT_FOUND');
  expect(await client.call('probe__run@1', {})).toMatchObject({ tool: 'probe__run' });
});

test('lists show the newest version alone, with the numbers of the others, and say what is deprecated', async () => {
  const listed = (await client.tools()).filter((it) => it.name.startsWith('probe__'));
  expect(listed.map(({ name, majors }) => [name, majors])).toEqual([
    ['probe__run', [2, 1]],
    ['probe__gone', undefined],
  ]);
  const gone = listed[1] as ToolInfo;
  expect(gone).toMatchObject({ deprecated: { replacement: 'probe__run' } });
  for (const format of ['openai', 'anthropic', 'mcp'] as const) {
    const all = await client.tools(format, { tools: 'all' });
    const shown = all.filter((it) => it.name.startsWith('probe__'));
    expect(shown.map((it) => it.name)).toEqual(['probe__run', 'probe__gone']);
    expect(shown[1]?.description).toMatch(/^\(Deprecated: use probe__run instead\) /);
  }
});

test('a call of a deprecated tool is warned, with the replacement', async () => {
  const { metadata } = await client.call('probe__run@1', {});
  expect(metadata.warnings).toEqual(['probe__run@1 is deprecated: use probe__run instead; It forgets half.']);
  expect((await client.call('probe__run', {})).metadata.warnings).toBeUndefined();
  expect((await client.call('probe__gone', {})).metadata.warnings).toEqual([
    'probe__gone is deprecated: use probe__run instead',
  ]);
});

test('a policy for a tool is for each of its versions', async () => {
  const rules = 'rules:\n  - { id: no, match: { tool: probe__run }, decision: deny, reason: No. }\n';
  await using strict = await openDaemon({ policy: rules });
  const folder = writePlugin({ tools: TOOLS, files: { 'main.js': CODE } });
  await addPlugin(strict, folder);
  removeTree(folder);
  await using other = await strict.connect();
  for (const it of ['probe__run', 'probe__run@1', 'probe__run@2'])
    expect(await other.call(it, {})).toMatchObject({ success: false, error: { rule: 'no' } });
  await using parent = await strict.connect({ role: 'operator' });
  const { token } = (await parent.request('sessions.attenuate', { tools: ['file_*'], expiresIn: 60_000 })) as {
    token: string;
  };
  await using narrow = await createClient({ socket: strict.socket, workspace: strict.workspace, token });
  expect(await called('probe__run@1', narrow)).toBe('TOOL_NOT_FOUND');
});

test.each([
  ['a version and none', [{ name: 'run' }, { name: 'run@1' }], 'run stands with a version and without'],
  ['the same version twice', [{ name: 'run@1' }, { name: 'run@1' }], 'run@1 stood before'],
  ['a version that is no number', [{ name: 'run@latest' }], 'and @MAJOR'],
  ['version 0', [{ name: 'run@0' }], 'and @MAJOR'],
  ['a deprecation that says nothing', [{ deprecated: {} }], 'takes a replacement, a reason or both'],
])('a manifest with %s is refused', (_, tools, message) => {
  const files = { 'ringfence.plugin.yaml': JSON.stringify(manifestOf({ tools })), 'main.js': CODE };
  expect(() => toPlugin(files, limits, 'it')).toThrow(message);
});

test('operations of connectors have versions and are deprecated as well', () => {
  const operation = (path: string, more = '') =>
    `{ description: Get it., request: { method: GET, path: ${path} }, output: { id: $.id }${more} }`;
  const file = (...operations: string[]) =>
    `connector: tickets\nbase: https://tickets.example.org\noperations:\n${operations.map((it) => `  ${it}\n`).join('')}`;
  const old = operation('/v1', ', deprecated: { replacement: tickets__get }');
  const text = file(`get@2: ${operation('/v2')}`, `get@1: ${old}`);
  const toolset = connectorTools(toConnector({ [FILE]: text }, limits, 'it'), { assertConfigured() {} });
  expect(
    [...toolset].map(([name, { tool }]) => [name, tool.name, runsBy(tool, 'connectors')?.operation.operation]),
  ).toEqual([
    ['tickets__get', 'tickets__get', 'get@2'],
    ['tickets__get@2', 'tickets__get', 'get@2'],
    ['tickets__get@1', 'tickets__get', 'get@1'],
  ]);
  expect(toolsOf(toolset).map((it) => [it.name, it.majors])).toEqual([['tickets__get', [2, 1]]]);
  const versions = new Set([...toolset.values()].map(({ tool }) => tool.version));
  expect(versions.size).toBe(2);
  expect(toolset.get('tickets__get@1')?.warnings?.({})).toEqual([
    'tickets__get@1 is deprecated: use tickets__get instead',
  ]);
  const mixed = file(`get: ${operation('/v2')}`, `get@1: ${old}`);
  expect(() => toConnector({ [FILE]: mixed }, limits, 'it')).toThrow('with a version and without');
});
