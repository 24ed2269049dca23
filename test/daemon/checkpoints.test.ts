/** Points of a workspace are named, compared and returned to, by programs and by a person. */
import { execFile } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Client, createClient } from '../../src/client/client.ts';
import { type OpenDaemon, openDaemon, ringfence, until } from '../support/daemon.ts';
import { treeWithModes } from '../support/workspace.ts';

let daemon: OpenDaemon;
let client: Client;

beforeAll(async () => {
  daemon = await openDaemon();
  client = await daemon.connect();
  await until(async () => (await run('date +%N > .ready')).metadata.undo === 'full', 40_000);
  await run('rm .ready');
}, 60_000);
afterAll(async () => {
  await client[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});

interface Returned {
  callId?: string;
  calls: string[];
  restored: string[];
  conflicts: string[];
  incomplete: string[];
}

const at = (path: string) => join(daemon.workspace, path);
const tree = () => treeWithModes(daemon.workspace);
const run = (command: string, by = client) => by.call('terminal_execute', { command });
const write = async (path: string, content: string, by = client) => {
  const written = await by.call('file_write', { path, content });
  expect(written).toMatchObject({ success: true, metadata: { undo: 'full' } });
  return written.callId;
};
const name = (it: string, by = client) => by.request('checkpoints.name', { name: it });
const diff = (it: string, by = client) =>
  by.request('checkpoints.diff', { name: it }) as Promise<{ calls: { callId: string }[]; paths: string[] }>;
const back = (it: string, more = {}, by = client) =>
  by.request('checkpoints.return', { name: it, ...more }) as Promise<Returned>;

test('a session with a token that was passed on moves no checkpoint of its parent', async () => {
  await name('kept');
  await write('kept.txt', 'one\n');
  const asked = { expiresIn: 60_000 };
  const { token } = (await client.request('sessions.attenuate', asked)) as { token: string };
  await using child = await createClient({ socket: daemon.socket, workspace: daemon.workspace, token });
  await expect(name('kept', child)).rejects.toMatchObject({ code: -32004 });
  expect((await diff('kept')).paths).toContain('kept.txt');
});

test('a return undoes file tools, commands and undos since, and is undone itself', async () => {
  await write('a', 'before\n');
  const early = await write('b', 'before\n');
  const before = tree();
  expect(await name('start')).toMatchObject({ name: 'start', replaced: false });
  await write('a', 'one\n');
  await run('mv a d; mkdir dir; echo x > dir/in; sed -i s/before/two/ b');
  await write('dir/in', 'y');
  await run('rm -rf dir; mkdir dir; echo again > dir/in');
  await client.request('calls.undo', { callId: early, force: true });
  const after = tree();
  expect((await diff('start')).paths).toEqual(expect.arrayContaining(['a', 'b', 'd', 'dir', 'dir/in']));
  const returned = await back('start');
  expect(returned).toMatchObject({ conflicts: [], incomplete: [], undo: 'full' });
  expect(returned.calls).toHaveLength(5);
  expect(tree()).toEqual(before);
  expect(await back('start')).toMatchObject({ calls: [], restored: [] });
  expect(await client.request('calls.undo', { callId: returned.callId })).toMatchObject({ conflicts: [] });
  expect(tree()).toEqual(after);
  expect(await back('start')).toMatchObject({ conflicts: [] });
  expect(tree()).toEqual(before);
});

test('a return to a checkpoint with a conflict changes nothing unless it is forced', async () => {
  await write('c', '1');
  await write('e', '1');
  await name('here');
  await write('c', '2');
  await run('echo 2 > e; echo new > f');
  await write('c', '3');
  writeFileSync(at('c'), 'mine');
  const now = tree();
  expect(await back('here')).toMatchObject({ restored: [], conflicts: ['c'] });
  expect(tree()).toEqual(now);
  writeFileSync(at('c'), '3');
  writeFileSync(at('e'), 'mine');
  const other = tree();
  expect(await back('here')).toMatchObject({ restored: [], conflicts: ['e'], undo: 'none' });
  expect(tree()).toEqual(other);
  const forced = await back('here', { force: true });
  expect(tree()).toMatchObject({ c: '644 1', e: '644 1' });
  await client.request('calls.undo', { callId: forced.callId });
  expect(readFileSync(at('e'), 'utf8')).toBe('mine');
});

test('a return to a checkpoint keeps what others did since, unless an operator returns', async () => {
  await using other = await daemon.connect();
  await using operator = await daemon.connect({ role: 'operator' });
  await name('shared');
  await write('mine', '1');
  await write('theirs', '1', other);
  expect(await back('shared', { session: 'own' })).toMatchObject({ restored: ['mine'] });
  expect(readFileSync(at('theirs'), 'utf8')).toBe('1');
  expect(await back('shared', {}, operator)).toMatchObject({ conflicts: [] });
  expect(Object.keys(tree()).filter((it) => ['mine', 'theirs'].includes(it))).toEqual([]);
});

test('names are bounded, and unknown ones are refused', async () => {
  await expect(name('a b')).rejects.toThrow('name');
  await expect(diff('nowhere')).rejects.toThrow('no checkpoint nowhere');
  for (let i = 0; i < 105; i++) await name(`n${i}`);
  const { checkpoints } = (await client.request('checkpoints.list', {})) as { checkpoints: { name: string }[] };
  expect(checkpoints).toHaveLength(100);
  expect(checkpoints[0]?.name).toBe('n104');
});

test('ringfence checkpoint names, lists, compares and returns', async () => {
  const cli = async (...args: string[]) => {
    const flags = ['--socket', daemon.socket, '--state', daemon.stateDir, '--workspace', daemon.workspace];
    const { stdout } = await promisify(execFile)(process.execPath, [ringfence, 'checkpoint', ...args, ...flags]);
    return stdout;
  };
  mkdirSync(at('cli'), { recursive: true });
  expect(await cli('name', 'by-hand')).toContain('named by-hand');
  await write('cli/a', 'a');
  expect(await cli('list')).toContain('1 call since');
  expect(await cli('diff', 'by-hand')).toContain('cli/a');
  expect(await cli('return', 'by-hand')).toMatch(/removed cli\/a[\s\S]*1 call undone/);
}, 60_000);
