/** The package for registries and desktop programs: server.json, and the bundle, which only connects. */
import { execFileSync, spawn } from 'node:child_process';
import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { repository, temporaryDir } from '../support/daemon.ts';

const folder = temporaryDir('bundle');
const unpacked = join(folder, 'unpacked');
const mcpb = (...args: string[]) => execFileSync(join(repository, 'node_modules/.bin/mcpb'), args, { stdio: 'ignore' });
const read = (path: string) => JSON.parse(readFileSync(join(repository, path), 'utf8'));
beforeAll(() => {
  const file = join(folder, 'ringfence.mcpb');
  mcpb('pack', join(repository, 'mcpb'), file); // Validates its manifest.
  mcpb('unpack', file, unpacked);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test('registry, bundle and package tell the same name and version', () => {
  const { version, name, mcpName } = read('package.json');
  const server = read('server.json');
  expect([server.name, server.version]).toEqual([mcpName, version]);
  expect(server.packages).toEqual([expect.objectContaining({ identifier: name, version })]);
  expect(JSON.parse(readFileSync(join(unpacked, 'manifest.json'), 'utf8'))).toMatchObject({ name, version });
});

test('without an installed Ringfence the bundle answers each request with how to install it, and ends with its client', async () => {
  const bridge = spawn(process.execPath, [join(unpacked, 'server/bridge.js'), '--workspace', folder], {
    env: { PATH: '/nowhere', HOME: folder },
    stdio: ['pipe', 'pipe', 'ignore'],
  });
  const ended = new Promise<number | null>((resolve) => bridge.once('exit', resolve));
  const lines = createInterface({ input: bridge.stdout })[Symbol.asyncIterator]();
  bridge.stdin.write(
    '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}\nnonsense\n{"jsonrpc":"2.0","method":"x"}\n',
  );
  expect(JSON.parse((await lines.next()).value as string)).toMatchObject({
    id: 1,
    error: { message: expect.stringMatching(/not installed on this machine.*npm install -g ringfence/) },
  });
  bridge.stdin.end();
  expect(await ended).toBe(1);
});
