/** The official Inspector in strict mode, through `ringfence mcp`, in both eras: people try it first. */
import { spawnSync } from 'node:child_process';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ringfence, startDaemon, type TestDaemon, temporaryDir } from '../support/daemon.ts';

const inspector = fileURLToPath(new URL('../../node_modules/.bin/mcp-inspector', import.meta.url));

let daemon: TestDaemon;
let home: string;
beforeAll(async () => {
  daemon = await startDaemon();
  home = temporaryDir('home');
  writeFileSync(join(daemon.workspace, 'notes.txt'), 'first\n');
});
afterAll(async () => {
  await daemon[Symbol.asyncDispose]();
  rmSync(home, { recursive: true });
});

/** Runs the Inspector; it exits with 6 if some client would not accept a schema. */
function inspect(era: string, ...words: string[]) {
  const server = [process.execPath, ringfence, 'mcp', '--socket', daemon.socket, '--workspace', daemon.workspace];
  const env = { PATH: process.env.PATH ?? '', HOME: home };
  const args = [inspector, '--cli', ...server, '--protocol-era', era, ...words];
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8', env, cwd: home });
  expect({ status, stderr: status === 0 ? '' : stderr }).toEqual({ status: 0, stderr: '' });
  return JSON.parse(stdout) as Record<string, unknown>;
}

test.each(['legacy', 'modern', 'auto'])('the Inspector accepts our schemas, and calls a tool (%s)', (era) => {
  const { tools } = inspect(era, '--method', 'tools/list', '--strict') as { tools: { name: string }[] };
  expect(tools.map((it) => it.name)).toContain('file_read');
  const call = inspect(era, '--method', 'tools/call', '--tool-name', 'file_read', '--tool-arg', 'path=notes.txt');
  expect(call).toMatchObject({ content: [{ type: 'text', text: 'first\n' }] });
  expect(call).not.toHaveProperty('structuredContent');
});
