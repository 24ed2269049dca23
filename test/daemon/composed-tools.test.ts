/** Composed tools: saved by an operator, tried with their examples, called by agents, versioned and removed. */
import { execFile } from 'node:child_process';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { dataOf, type OpenDaemon, openDaemon, ringfence } from '../support/daemon.ts';
import { addPlugin, writePlugin } from '../support/plugin.ts';

const run = promisify(execFile);
const POLICY = `tiers:
  write: { decision: allow, approve: [] }
rules:
  - { id: kept, match: { path: kept.txt }, decision: deny, reason: It stays with the person. }
`;
const COPIED = {
  description: 'Copies the text of one file to another, and tells its length.',
  inputs: {
    from: { type: 'string', description: 'The file to read.' },
    to: { type: 'string', description: 'The file to write.', default: 'copy.txt' },
  },
  calls: [
    { id: 'write', tool: 'file_write', input: { path: '${input.to}', content: 'copied: ${read.data.content}' } },
    { id: 'read', tool: 'file_read', input: { path: '${input.from}' } },
  ],
  examples: [{ input: { from: 'a.txt' }, output: { value: { read: { content: 'one\n' } } } }],
};

let daemon: OpenDaemon;
let agent: Client;
let operator: Client;
beforeAll(async () => {
  daemon = await openDaemon({ policy: POLICY });
  for (const name of ['a.txt', 'kept.txt']) writeFileSync(join(daemon.workspace, name), 'one\n');
  agent = await daemon.connect();
  operator = await daemon.connect({ role: 'operator' });
});
afterAll(async () => {
  await agent[Symbol.asyncDispose]();
  await operator[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});
const save = (name: string, composed: object, by = operator) => by.request('plugins.save', { name, composed });

test('a saved batch is a tool with typed inputs, whose calls the policy judges one by one', async () => {
  await save('copied', COPIED);
  const listed = (await agent.tools()).find((it) => it.name === 'copied__run');
  expect(listed).toMatchObject({ tier: 'write', inputSchema: { required: ['from'] } });
  expect(await dataOf(agent.call('copied__run', { from: 'a.txt', to: 'b.txt' }) as never)).toMatchObject({
    value: { read: { content: 'one\n' }, write: { path: 'b.txt' } },
  });
  expect(await dataOf(agent.call('file_read', { path: 'b.txt' }))).toMatchObject({ content: 'copied: one\n' });
  expect(await agent.call('copied__run', { from: 7 })).toMatchObject({ error: { code: 'INPUT_INVALID' } });
  expect(await agent.call('copied__run', { from: 'kept.txt' })).toMatchObject({
    error: { code: 'CODE_ERROR', message: expect.stringContaining('It stays with the person') },
  });
});

test('saving again makes the next version, older ones stay callable by their number, and removing takes all', async () => {
  const said = (text: string) => ({ description: 'Says a word.', inputs: {}, program: `return '${text}';`, tools: [] });
  for (let at = 1; at <= 6; at++)
    expect(await save('said', said(`v${at}`))).toMatchObject({ tool: 'said__run', version: `${at}.0.0` });
  expect(await dataOf(agent.call('said__run', {}) as never)).toEqual({ value: 'v6' });
  expect(await dataOf(agent.call('said__run@3', {}) as never)).toEqual({ value: 'v3' });
  expect(await agent.call('said__run@2', {})).toMatchObject({ error: { code: 'TOOL_NOT_FOUND' } });
  expect(await operator.request('plugins.remove', { name: 'said' })).toEqual({ removed: true });
  expect(await agent.call('said__run', {})).toMatchObject({ error: { code: 'TOOL_NOT_FOUND' } });
});

test('a plugin that was added as a folder is not removed like a composed tool', async () => {
  await addPlugin(
    daemon,
    writePlugin({ name: 'folder', files: { 'main.js': 'export const run = () => ({ value: 1 });' } }),
  );
  const refused = operator.request('plugins.remove', { name: 'folder' });
  await expect(refused).rejects.toThrow('ringfence plugin remove folder');
});

test('an agent can neither save nor remove a composed tool', async () => {
  await expect(save('mine', COPIED, agent)).rejects.toMatchObject({ message: expect.stringContaining('operator') });
  await expect(agent.request('plugins.remove', { name: 'copied' })).rejects.toThrow('operator');
});

test.each([
  ['a tool that there is not', { calls: [{ id: 'a', tool: 'no_tool', input: {} }] }, 'there is no tool no_tool'],
  ['a tool that runs a program', { calls: [{ id: 'a', tool: 'code_run', input: {} }] }, 'runs a program itself'],
  ['a call named input', { calls: [{ id: 'input', tool: 'file_read', input: {} }] }, 'no call is named input'],
  ['a reference to no call', { calls: [{ id: 'a', tool: 'file_read', input: { path: '${b.c}' } }] }, '`b`'],
  ['code that does not parse', { program: 'return (', tools: [], calls: undefined }, 'run-1.js'],
  ['an example that the inputs refuse', { examples: [{ input: { from: 1 } }] }, 'example 1'],
  ['an input without a description', { inputs: { a: { type: 'string' } }, examples: [] }, 'has no description'],
])('a composition with %s is refused with the reason', async (_, changed, reason) => {
  const { calls, ...rest } = { ...COPIED, ...changed };
  const composed = calls === undefined ? rest : { ...rest, calls };
  await expect(save('wrong', composed)).rejects.toThrow(reason);
});

test("a tool never calls one above its plugin's tier, whatever its manifest lists", async () => {
  await save('reads', {
    description: 'Tells its tools.',
    inputs: {},
    program: 'return Object.keys(tools);',
    tools: ['file_read', 'file_list'],
  });
  expect(await dataOf(agent.call('reads__run', {}) as never)).toEqual({ value: ['file_read', 'file_list'] });
  const { addPlugin, writePlugin } = await import('../support/plugin.ts');
  const code = 'export const run = (_, { tools }) => ({ value: Object.keys(tools) });';
  const folder = writePlugin({ tools: [{ calls: ['file_read', 'file_write'] }], files: { 'main.js': code } });
  await addPlugin(daemon, folder);
  rmSync(folder, { recursive: true });
  expect(await dataOf(agent.call('probe__run', {}) as never)).toEqual({ value: ['file_read'] });
});

test('the command line saves a file as a tool, and tries it with its examples', async () => {
  const file = join(daemon.stateDir, 'batch.json');
  const state = ['--socket', daemon.socket, '--state', daemon.stateDir];
  const cli = (...args: string[]) =>
    run(process.execPath, [ringfence, 'plugin', ...args, ...state], { cwd: daemon.workspace });
  writeFileSync(file, JSON.stringify(COPIED));
  expect((await cli('save', file, 'by_file')).stdout).toContain('by_file__run is saved, version 1.0.0');
  expect((await cli('test', 'by_file')).stdout).toContain('by_file__run@1, example 1: right');
  writeFileSync(file, JSON.stringify({ ...COPIED, examples: [{ input: { from: 'a.txt' }, output: { value: 1 } }] }));
  await cli('save', file, 'by_file');
  await expect(cli('test', 'by_file')).rejects.toMatchObject({ code: 1, stdout: expect.stringContaining('gave {') });
}, 60_000);
