/** A registry that wants a key: commands read from it, and never hold the key. */

import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { defaultLimits } from '../../src/base/limits.ts';
import type { Client } from '../../src/client/client.ts';
import { storeSecret } from '../../src/services/secrets/secret-files.ts';
import { dataOf, type OpenDaemon, openDaemon, repository, temporaryDir, until } from '../support/daemon.ts';
import { authorityIn } from '../support/service.ts';

const TOKEN = 'npm_of-the-company-51c9';
const MAVEN_TOKEN = 'agent:maven-of-the-company';
/** A crate without code, as `cargo package` makes it. */
const CRATE = execFileSync('tar', ['-cz', '-C', join(repository, 'test/fixtures/crate'), 'inner-1.0.0']);
const CKSUM = createHash('sha256').update(CRATE).digest('hex');
const PARENT = `<project><modelVersion>4.0.0</modelVersion><groupId>org.company</groupId><artifactId>parent</artifactId>
<version>1</version><packaging>pom</packaging></project>`;
const VERSION = { name: 'inner', version: '1.2.3', description: 'read with the key' };
const folder = temporaryDir('registry');
const requests: string[] = [];
let server: Server;
let daemon: OpenDaemon;
let client: Client;

/** The folder of rustup's Rust; undefined where there is none. */
const RUST = [join(homedir(), '.rustup/toolchains/stable-x86_64-unknown-linux-gnu')].find((it) => existsSync(it));

function put(path: string, text: string): void {
  mkdirSync(dirname(join(daemon.workspace, path)), { recursive: true });
  writeFileSync(join(daemon.workspace, path), text);
}

const run = async (command: string): Promise<string> => {
  const { stdout, stderr } = await dataOf(client.call('terminal_execute', { command }));
  return `${stdout}${stderr}`;
};

beforeAll(async () => {
  const { key, ca } = authorityIn(folder);
  server = createServer({ key: readFileSync(key), cert: readFileSync(ca) }, ({ method, url, headers }, response) => {
    requests.push(`${method} ${url}`);
    const isMaven = url?.startsWith('/maven/');
    const wanted = isMaven ? `Basic ${Buffer.from(MAVEN_TOKEN).toString('base64')}` : `Bearer ${TOKEN}`;
    if (headers.authorization !== wanted) return response.writeHead(401).end('a key is wanted');
    if (method === 'PUT') return response.writeHead(201).end('{"ok":true}');
    if (isMaven) return response.end(PARENT);
    const { port } = server.address() as AddressInfo;
    if (url === '/index/config.json')
      return response.end(JSON.stringify({ dl: `https://127.0.0.1:${port}/crates`, 'auth-required': true }));
    if (url === '/index/in/ne/inner')
      return response.end(
        `${JSON.stringify({ name: 'inner', vers: '1.0.0', deps: [], features: {}, cksum: CKSUM, yanked: false })}\n`,
      );
    if (url === '/crates/inner/1.0.0/download') return response.end(CRATE);
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
    config: {
      registries: {
        npm: { url: `https://127.0.0.1:${port}/npm/`, secret: 'company', publish: true },
        cargo: {
          url: `sparse+https://127.0.0.1:${port}/index/`,
          packages: `https://127.0.0.1:${port}/crates/`,
          secret: 'company',
        },
        maven: { url: `https://127.0.0.1:${port}/maven`, secret: 'company-maven' },
      },
      toolchains: RUST ? [`${RUST}/bin`, RUST] : [],
    },
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

test('npm publishes with the key after a yes to the line, and unpublishes nothing', async () => {
  await using operator = await daemon.connect({ role: 'operator' });
  put('package/package.json', '{ "name": "inner", "version": "2.0.0" }');
  const command =
    'cd package && npm_config_noproxy= NO_PROXY= no_proxy= npm publish; NO_PROXY= no_proxy= curl -s -X DELETE ${npm_config_registry}inner';
  const running = client.call('terminal_execute', { command });
  const find = async () =>
    ((await operator.request('approvals.list', {})) as { approvals: { approvalId: string }[] }).approvals;
  await until(async () => (await find()).length === 1, 30_000);
  const [asked] = await find();
  await operator.request('approvals.resolve', { approvalId: asked?.approvalId, decision: 'approve' });
  const { stdout } = await dataOf<{ stdout: string }>(running as never);
  expect(stdout).toContain('+ inner@2.0.0');
  expect(stdout).toContain('publishes nothing with it');
  expect(requests).toContain('PUT /npm/inner');
  expect(requests.filter((it) => it.startsWith('DELETE'))).toEqual([]);
});

test('nothing is published with the key', async () => {
  const before = requests.length;
  const answer = await run('NO_PROXY= no_proxy= curl -s -X PUT -d {} ${npm_config_registry}inner');
  expect(answer).toContain('adds the key of 127.0.0.1 to requests that read');
  expect(requests.length).toBe(before);
});

test.runIf(RUST)(
  'cargo fetches a crate with the key, and its lock file names the registry as outside',
  async () => {
    const { port } = server.address() as AddressInfo;
    const index = `sparse+https://127.0.0.1:${port}/index/`;
    put(
      'rust/Cargo.toml',
      `[package]\nname = "outer"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\ninner = { version = "1", registry = "company" }\n`,
    );
    put('rust/.cargo/config.toml', `[registries.company]\nindex = "${index}"\n`);
    put('rust/src/lib.rs', '');
    expect(
      await run(`cd rust && NO_PROXY= no_proxy= cargo fetch && cat ~/.cargo/registry/src/*/inner-1.0.0/src/lib.rs`),
    ).toContain('pub fn inner');
    expect(readFileSync(join(daemon.workspace, 'rust/Cargo.lock'), 'utf8')).toContain(index);
    expect(await run('cat /.cargo/config.toml')).not.toContain(TOKEN);
  },
  120_000,
);

test.runIf(existsSync('/usr/bin/mvn'))(
  'Maven reads a parent with the key of the registry nearest to its path',
  async () => {
    storeSecret(daemon.stateDir, { name: 'company-maven', value: MAVEN_TOKEN }, defaultLimits);
    put(
      'java/pom.xml',
      `<project><modelVersion>4.0.0</modelVersion><parent><groupId>org.company</groupId><artifactId>parent</artifactId><version>1</version></parent><artifactId>inner</artifactId><packaging>pom</packaging></project>`,
    );
    const answer = await run('cd java && MAVEN_OPTS=-Dhttp.nonProxyHosts= mvn -q -B validate && echo validated');
    expect(answer).toContain('validated');
    expect(requests).toContain('GET /maven/org/company/parent/1/parent-1.pom');
  },
  120_000,
);
