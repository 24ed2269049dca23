/** Commands whose program is not installed, run by real shells in real sandboxes. */
import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { type OpenDaemon, openDaemon } from '../support/daemon.ts';

let daemon: OpenDaemon;
let client: Client;
beforeAll(async () => {
  daemon = await openDaemon();
  client = await daemon.connect();
});
afterAll(async () => {
  await client[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});

const run = (command: string, more: object = {}) => client.call('terminal_execute', { command, ...more });
const missing = (program: string, more: object = {}, data: object = {}) => ({
  success: true,
  data: { exitCode: 127, missing: { program, ...more }, ...data },
});

test.each([
  ['bash', 'no-such-tool --version', {}],
  ['the shell of package managers', 'bash -c "exec -a sh sh -c no-such-tool"', {}],
  ['env, as scripts name their interpreter', 'env no-such-tool', {}],
  ['sh', 'no-such-tool', { shell: 'sh' }],
])('%s says which program a command lacks', async (_, command, more) => {
  expect(await run(command, more)).toMatchObject(missing('no-such-tool', { suggestions: [] }));
});

test('a script that lacks one keeps what it has printed', async () => {
  const result = await client.call('terminal_script', { script: 'echo one\nno-such-tool' });
  expect(result).toMatchObject(missing('no-such-tool', {}, { stdout: 'one\n' }));
});

test('the result for a known missing program says what installs it', async () => {
  // Printed, since this machine may have the program.
  const result = await run('echo "bash: line 1: ffmpeg: command not found" >&2; exit 127');
  expect(result).toMatchObject(missing('ffmpeg', { suggestions: [{ from: 'debian', run: 'apt-get install ffmpeg' }] }));
});

describe('no missing program', () => {
  test.each([
    ['a program that is looked for and done without', 'command -v no-such-tool || no-such-tool || echo fine', 0],
    ['a path that is not there', './no-such-file', 127],
    ['an exit code alone', 'exit 127', 127],
    ['the words alone', 'echo "bash: line 1: jq: command not found" >&2', 0],
  ])('%s does not count as a missing program', async (_, command, exitCode) => {
    const { data } = (await run(command)) as { data?: Record<string, unknown> };
    expect([data?.exitCode, data?.missing]).toEqual([exitCode, undefined]);
  });
});

test('a program that the workspace has installed for itself is named with its way', async () => {
  mkdirSync(join(daemon.workspace, 'node_modules/.bin'), { recursive: true });
  const script = join(daemon.workspace, 'node_modules/own-tool.js');
  writeFileSync(script, '#!/bin/sh\n');
  chmodSync(script, 0o755);
  symlinkSync('../own-tool.js', join(daemon.workspace, 'node_modules/.bin/own-tool'));
  const result = await run('own-tool');
  expect(result).toMatchObject(
    missing('own-tool', { suggestions: [{ from: 'workspace', run: 'npx --no-install own-tool' }] }),
  );
});
