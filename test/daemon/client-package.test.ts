/** The package `ringfence-client` as npm packs it, on an old Node and as a Mac sees it, against the socket of a real daemon. */
import { execFile, execFileSync, spawn } from 'node:child_process';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type OpenDaemon, openDaemon, repository, temporaryDir } from '../support/daemon.ts';
import { installPackage } from '../support/installed-package.ts';

const run = promisify(execFile);
const folder = temporaryDir('client');
const program = join(folder, 'node_modules/ringfence-client/bin/ringfence.js');
/** The system's Node, if it is as old as the oldest that the package takes, and the one of this run. */
const system = '/usr/bin/node';
const isOld = existsSync(system) && execFileSync(system, ['--version'], { encoding: 'utf8' }).startsWith('v20.');
const MAC = 'data:text/javascript,Object.defineProperty(process, "platform", { value: "darwin" })';

let daemon: OpenDaemon;
beforeAll(async () => {
  installPackage(folder, [], 'ringfence-client');
  daemon = await openDaemon({ policy: 'extends: default\ntiers:\n  execute: { decision: ask }\n' });
  writeFileSync(join(daemon.workspace, 'a.txt'), 'read\n');
});
afterAll(async () => {
  await daemon[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true });
});

test('the two packages have one version, and the same optional partners', () => {
  const [ours, client] = ['.', 'packages/client'].map((it) =>
    JSON.parse(readFileSync(join(repository, it, 'package.json'), 'utf8')),
  );
  expect(client).toMatchObject({ version: ours.version, engines: ours.engines, license: ours.license });
  expect({ os: client.os, cpu: client.cpu, scripts: Object.keys(client.scripts) }).toEqual({ scripts: ['prepack'] });
  const { '@duckdb/node-api': _, ...partners } = ours.peerDependencies;
  expect(client.peerDependencies).toEqual(partners);
  expect(client.dependencies).toEqual({ zod: ours.dependencies.zod });
});

describe.each([['the Node of this run', process.execPath], ...(isOld ? [['Node 20', system]] : [])] as [
  string,
  string,
][])('with %s', (_, node) => {
  const ringfence = (...words: string[]) =>
    run(node, ['--import', MAC, program, ...words, '--socket', daemon.socket], {
      cwd: daemon.workspace,
      env: { HOME: folder, PATH: folder },
    });

  test('`status` shows the daemon, without colours in a pipe', async () => {
    const { stdout } = await ringfence('status');
    expect(stdout).toMatch(/running {2}.*policy /);
    expect(stdout).not.toContain('\u001b');
  });

  test('`call` runs a tool in the folder, and a question is answered by `approvals`', async () => {
    expect((await ringfence('call', 'file_read', 'path=a.txt')).stdout).toBe('read\n');
    const call = () => ringfence('call', 'terminal_execute', `command=echo for ${node}`);
    const refused = await call().catch(({ stderr }: { stderr: string }) => stderr);
    const [, id = ''] = /approvals approve (a_\w+)/.exec(refused as string) ?? [];
    await ringfence('approvals', 'approve', id);
    expect((await call()).stdout).toBe(`for ${node}\n`);
  });

  test('`panel --print` gives the address of the panel', async () => {
    expect((await ringfence('panel', '--print')).stdout).toMatch(/^http:\/\/\S+\n$/);
  });

  test('`mcp` serves an MCP client', async () => {
    const bridge = spawn(node, ['--import', MAC, program, 'mcp', '--socket', daemon.socket], {
      cwd: daemon.workspace,
      env: { HOME: folder },
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    try {
      const params = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 't', version: '1' } };
      bridge.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params })}\n`);
      for await (const line of createInterface(bridge.stdout)) {
        expect(JSON.parse(line)).toMatchObject({ id: 1, result: { serverInfo: { name: expect.any(String) } } });
        break;
      }
    } finally {
      bridge.stdin.end();
      bridge.kill();
    }
  });

  test('the library makes a call, by import', async () => {
    const code = `import { createClient } from 'ringfence-client';
      const client = await createClient({ socket: ${JSON.stringify(daemon.socket)}, workspace: ${JSON.stringify(daemon.workspace)} });
      console.log((await client.call('file_read', { path: 'a.txt' })).data.content);
      await client[Symbol.asyncDispose]();`;
    const { stdout } = await run(node, ['--input-type=module', '--eval', code], { cwd: folder });
    expect(stdout).toBe('read\n\n');
  });

  test('`ringfence-client/testing` plays a model and answers recorded calls', async () => {
    const code = `import { ModelServer, Replayer } from 'ringfence-client/testing';
      console.log(typeof ModelServer, typeof Replayer);`;
    const { stdout } = await run(node, ['--input-type=module', '--eval', code], { cwd: folder });
    expect(stdout).toBe('function function\n');
  });

  test('without a daemon it says how to start one, and starts none', async () => {
    const none = run(node, ['--import', MAC, program, 'call', 'file_list'], {
      cwd: daemon.workspace,
      env: { HOME: folder },
    });
    await expect(none).rejects.toMatchObject({
      code: 3,
      stderr: expect.stringMatching(/no daemon listens at .*ringfence vm start/),
    });
    expect(existsSync(join(folder, '.local'))).toBe(false);
  });
});

test.skipIf(!isOld)('`ringfence/client` starts a daemon on Node 20, with the Node of its package', async () => {
  const home = temporaryDir('home');
  const env = { HOME: home, PATH: process.env.PATH ?? '' };
  try {
    const code = `const { createClient } = require(${JSON.stringify(join(repository, 'dist/src/entries/client.js'))});
      createClient({ workspace: ${JSON.stringify(daemon.workspace)} }).then(async (client) => {
        console.log((await client.call('file_read', { path: 'a.txt' })).data.content);
        await client[Symbol.asyncDispose]();
      });`;
    expect((await run(system, ['--eval', code], { cwd: folder, env })).stdout).toBe('read\n\n');
  } finally {
    await run(join(repository, 'bin/ringfence'), ['stop'], { env, cwd: folder }).catch(() => {}); // None was started.
    rmSync(home, { recursive: true, force: true });
  }
});
