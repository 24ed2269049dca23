/** What runs or obeys what agents write, and is not asked about: programs of the person that follow it, and ordinary files. */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { runCli } from '../support/cli.ts';
import { type OpenDaemon, openDaemon, until } from '../support/daemon.ts';

let daemon: OpenDaemon;
let agent: Client;
let operator: Client;
const programs: ChildProcess[] = [];
beforeAll(async () => {
  daemon = await openDaemon();
  agent = await daemon.connect();
  operator = await daemon.connect({ role: 'operator' });
});
afterAll(async () => {
  // SIGTERM, which `node --watch` passes on to its program.
  for (const it of programs) it.kill('SIGTERM');
  await agent[Symbol.asyncDispose]();
  await operator[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});

const at = (path: string) => join(daemon.workspace, path);

/** A program of the person, once it said that it watches. */
async function follow(args: readonly string[], cwd: string): Promise<number> {
  const child = spawn(process.execPath, args, { cwd, stdio: ['ignore', 'pipe', 'ignore'] });
  programs.push(child);
  await new Promise((resolve) => child.stdout.once('data', resolve));
  return child.pid as number;
}

const verb = async (...words: string[]): Promise<string> => (await runCli(daemon, words)).stdout;

test('programs of the person that follow the workspace are named in status and once in a result, and none of the sandbox', async () => {
  mkdirSync(at('src'));
  writeFileSync(at('server.mjs'), 'console.log(1); setInterval(() => {}, 1000);');
  writeFileSync(at('watcher.cjs'), "require('node:fs').watch(process.argv[2], () => {}); console.log(1);");
  writeFileSync(at('inside.sh'), 'node watcher.cjs src & sleep 2; kill $!');
  const watch = await follow(['--watch', 'server.mjs'], daemon.workspace);
  const watcher = await follow([at('watcher.cjs'), at('src')], '/');
  const beside = await follow([at('watcher.cjs'), daemon.stateDir], '/');
  const inside = agent.call('terminal_execute', { command: 'sh inside.sh' });
  type Outside = { outsidePrograms: { workspace: string; program: string; pid: number }[] };
  let found: Outside['outsidePrograms'] = [];
  await until(async () => {
    found = ((await operator.request('status', {})) as Outside).outsidePrograms;
    return found.length >= 2;
  });
  expect(new Set(found.map(({ pid }) => pid))).toEqual(new Set([watch, watcher]));
  expect(found).toContainEqual({ workspace: daemon.workspace, program: 'node watcher.cjs', pid: watcher });
  expect(found.map(({ pid }) => pid)).not.toContain(beside);
  const results = [await inside];
  await until(async () => {
    results.push(await agent.call('terminal_execute', { command: 'true' }));
    return results.some(({ metadata }) => metadata.warnings !== undefined);
  });
  results.push(await agent.call('terminal_execute', { command: 'true' }));
  const warnings = results.flatMap(({ metadata }) => metadata.warnings ?? []);
  expect(warnings).toEqual([
    expect.stringMatching(/node (?:server\.mjs|watcher\.cjs) \(\d+\), node .* follow this folder/),
  ]);
  expect(await verb('status')).toContain(`node watcher.cjs (${watcher})`);
});

test('changes lists ordinary files that tools run and those that agents obey, until the call is undone', async () => {
  const { callId } = await agent.call('terminal_execute', {
    command:
      'mkdir -p web && echo {} > web/package.json && echo all: > Makefile && echo hi > AGENTS.md && echo a > plain.txt',
  });
  await agent.call('file_write', { path: 'web/vite.config.ts', content: 'export default {}' });
  expect(await operator.request('session.quarantine', {})).toMatchObject({
    changed: [
      { path: 'AGENTS.md', how: 'obeyed', callId },
      { path: 'Makefile', how: 'run' },
      { path: 'web/package.json', how: 'run' },
      { path: 'web/vite.config.ts', how: 'run' },
    ],
  });
  const listed = await verb('changes');
  expect(listed.split('\n').filter((it) => it !== '')).toEqual([
    expect.stringMatching(/^Makefile {2}\(make/),
    expect.stringMatching(/^web\/package\.json /),
    expect.stringMatching(/^web\/vite\.config\.ts /),
    expect.stringMatching(/^AGENTS\.md {2}\(agents; call /),
  ]);
  await operator.request('calls.undo', { callId });
  expect(await operator.request('session.quarantine', {})).toMatchObject({
    changed: [{ path: 'web/vite.config.ts', how: 'run' }],
  });
});

test('changes lists a file that a command wrote through a name that is gone again, and an undo takes it back', async () => {
  await agent.call('file_write', { path: 'linked/package.json', content: '{}' });
  const { callId, metadata } = await agent.call('terminal_execute', {
    command: 'ln linked/package.json t && echo evil > t && rm t',
  });
  expect(metadata).toMatchObject({ undo: 'full', filesChanged: [{ path: 'linked/package.json', kind: 'modify' }] });
  const { changed } = (await operator.request('session.quarantine', {})) as { changed: { path: string }[] };
  expect(changed).toContainEqual(expect.objectContaining({ path: 'linked/package.json', callId }));
  await operator.request('calls.undo', { callId });
  expect(await agent.call('file_read', { path: 'linked/package.json' })).toMatchObject({ data: { content: '{}' } });
});
