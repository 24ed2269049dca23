/** A registry that wants a key: commands read from it, and never hold the key. */

import { readFileSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { defaultLimits } from '../../src/base/limits.ts';
import type { Client } from '../../src/client/client.ts';
import { storeSecret } from '../../src/services/secrets/secret-files.ts';
import { dataOf, type OpenDaemon, openDaemon, temporaryDir } from '../support/daemon.ts';
import { authorityIn } from '../support/service.ts';

const TOKEN = 'npm_of-the-company-51c9';
const VERSION = { name: 'inner', version: '1.2.3', description: 'read with the key' };
const folder = temporaryDir('registry');
const requests: string[] = [];
let server: Server;
let daemon: OpenDaemon;
let client: Client;

const run = async (command: string): Promise<string> => {
  const { stdout, stderr } = await dataOf(client.call('terminal_execute', { command }));
  return `${stdout}${stderr}`;
};

beforeAll(async () => {
  const { key, ca } = authorityIn(folder);
  server = createServer({ key: readFileSync(key), cert: readFileSync(ca) }, ({ method, url, headers }, response) => {
    requests.push(`${method} ${url}`);
    if (headers.authorization !== `Bearer ${TOKEN}`) return response.writeHead(401).end('a key is wanted');
    return response.end(
      JSON.stringify({ name: 'inner', 'dist-tags': { latest: '1.2.3' }, versions: { '1.2.3': VERSION } }),
    );
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const { port } = server.address() as AddressInfo;
  daemon = await openDaemon({
    policy: `
version: 1
extends: default
open: [tiers]
tiers: { execute: { decision: allow, reason: x, network: { allow: [{ host: 127.0.0.1, port: ${port} }] } } }
`,
    config: { registries: { npm: { url: `https://127.0.0.1:${port}/npm/`, secret: 'company' } } },
    env: { NODE_EXTRA_CA_CERTS: ca },
  });
  client = await daemon.connect();
});
afterAll(async () => {
  await daemon[Symbol.asyncDispose]();
  server.closeAllConnections();
  server.close();
  rmSync(folder, { recursive: true });
});

test('a registry without its key says that it wants one, and a stored key counts for the next command', async () => {
  expect(await run('NO_PROXY= no_proxy= curl -s ${npm_config_registry}inner')).toContain('a key is wanted');
  storeSecret(daemon.stateDir, { name: 'company', value: TOKEN }, defaultLimits);
  expect(await run('NO_PROXY= no_proxy= curl -s ${npm_config_registry}inner')).toContain('read with the key');
});

test('npm reads from the registry with the key, which is nowhere in the sandbox', async () => {
  expect(await run('npm_config_noproxy= NO_PROXY= no_proxy= npm view inner description')).toContain(
    'read with the key',
  );
  expect(requests.at(-1)).toBe('GET /npm/inner');
  expect(await run('env; cat /proc/*/environ | tr "\\0" "\\n"; cat ~/.npmrc /tmp/.npmrc 2>&1')).not.toContain(TOKEN);
});

test.each(['/api/secret', '/npm/../api/secret', '/npm/..%2fapi/secret'])(
  'the key does not go to %s, which is not below the registry',
  async (path) => {
    const own = '${npm_config_registry%/npm/}';
    const answer = await run(`NO_PROXY= no_proxy= curl -s --path-as-is "${own}${path}"`);
    expect(answer).toContain('a key is wanted');
  },
);

test('nothing is published with the key', async () => {
  const before = requests.length;
  const answer = await run('NO_PROXY= no_proxy= curl -s -X PUT -d {} ${npm_config_registry}inner');
  expect(answer).toContain('adds the key of 127.0.0.1 to requests that read');
  expect(requests.length).toBe(before);
});
