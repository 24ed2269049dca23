/** The plugins in examples/ keep the promises of every built-in tool, and those of their READMEs. */
import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { ToolResult } from '../../src/base/call.ts';
import { defaultLimits as limits } from '../../src/base/limits.ts';
import type { Client } from '../../src/client/client.ts';
import { readPlugin } from '../../src/services/plugins/package.ts';
import { toToolset } from '../../src/services/plugins/toolset.ts';
import { toolsOf } from '../../src/tools/registry.ts';
import { toolPromises } from '../support/contract.ts';
import { type OpenDaemon, openDaemon, ringfence, temporaryDir } from '../support/daemon.ts';
import { addPlugin } from '../support/plugin.ts';

const examples = fileURLToPath(new URL('../../examples/plugins', import.meta.url));
const NAMES = ['sqlite', 'packages', 'scaffold'] as const;
const tools = NAMES.flatMap((it) => toolsOf(toToolset(readPlugin(join(examples, it), limits))));

const server = createServer(({ url }, response) => {
  if (url !== '/@scope%2Fit/latest') return response.writeHead(404).end('{}');
  return response.end(JSON.stringify({ version: '1.2.3', license: 'MIT', dependencies: { b: '^1', a: '^2' } }));
});
let daemon: OpenDaemon;
let client: Client;
let registry: string;

beforeAll(async () => {
  await new Promise<void>((ready) => server.listen(0, '127.0.0.1', ready));
  const { port } = server.address() as AddressInfo;
  registry = `http://127.0.0.1:${port}`;
  const api = `tiers:\n  external_api: { decision: allow, network: { allow: ["127.0.0.1:${port}"] } }\n`;
  daemon = await openDaemon({ policy: api });
  client = await daemon.connect();
  for (const it of NAMES) await addPlugin(daemon, join(examples, it));
});
afterAll(async () => {
  await client[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
  server.close();
});
beforeEach(() => {
  for (const it of ['data', 'templates', 'made']) {
    rmSync(join(daemon.workspace, it), { recursive: true, force: true });
    if (it !== 'made') mkdirSync(join(daemon.workspace, it));
  }
  using shop = new DatabaseSync(join(daemon.workspace, 'data/shop.db'));
  shop.exec("CREATE TABLE items (name TEXT, price REAL); INSERT INTO items VALUES ('pen', 1.5), ('book', 12)");
  const template =
    '// {{name}}\nexport class {{name|pascal}} {\n  readonly {{ name | camel }} = 1;\n}\n// {{name|upper}}\n';
  writeFileSync(join(daemon.workspace, 'templates/service.txt'), template);
});

for (const tool of tools) toolPromises(tool, { client: () => client });

test.each(NAMES)('%s is what `ringfence plugin check` takes', async (name) => {
  const { stdout } = await promisify(execFile)(process.execPath, [ringfence, 'plugin', 'check', join(examples, name)]);
  expect(stdout).toContain(`${name} 1.0.0`);
});

test('the plugin of docs/how-to/plugins.md does what it says there', async () => {
  const page = readFileSync(fileURLToPath(new URL('../../docs/how-to/plugins.md', import.meta.url)), 'utf8');
  const block = (language: string) => new RegExp(`\`\`\`${language}\\n([\\s\\S]*?)\`\`\``).exec(page)?.[1] as string;
  const folder = temporaryDir('plugin');
  writeFileSync(join(folder, 'ringfence.plugin.yaml'), block('yaml'));
  writeFileSync(join(folder, 'find.js'), block('js'));
  await promisify(execFile)(process.execPath, [ringfence, 'plugin', 'check', folder]);
  await addPlugin(daemon, folder);
  rmSync(folder, { recursive: true });
  mkdirSync(join(daemon.workspace, 'notes'), { recursive: true });
  writeFileSync(join(daemon.workspace, 'notes/monday.md'), 'Buy tea.\n');
  expect(await client.call('notes__find', { word: 'tea' })).toMatchObject({ data: { files: ['notes/monday.md'] } });
});

describe('packages', () => {
  const latest = (input: object, by = client) => by.call('packages__latest', input) as PromiseLike<ToolResult>;

  test('asks a registry that the policy lists, and is refused by one that lists none', async () => {
    expect(await latest({ name: '@scope/it', registry })).toMatchObject({
      success: true,
      data: { version: '1.2.3', license: 'MIT', dependencies: ['a', 'b'] },
    });
    expect(await latest({ name: 'nothing', registry })).toMatchObject({
      error: { code: 'CODE_ERROR', message: expect.stringContaining('knows no package nothing') },
    });
    expect(await latest({ name: 'it' })).toMatchObject({ error: { details: { code: 'POLICY_DENIED' } } });
    await using strict = await openDaemon({ policy: 'tiers:\n  external_api: { decision: allow }\n' });
    await addPlugin(strict, join(examples, 'packages'));
    await using other = await strict.connect();
    expect(await latest({ name: 'it', registry }, other)).toMatchObject({
      error: { details: { code: 'POLICY_DENIED' } },
    });
  });

  test('the package has a policy beside it that lists its registry', async () => {
    await using allowing = await openDaemon({ policy: readFileSync(join(examples, 'allow-npm.yaml'), 'utf8') });
    await using other = await allowing.connect();
    const explained = await other.call('http_request', { url: 'https://example.org/' });
    expect(explained).toMatchObject({ error: { code: 'POLICY_DENIED', rule: 'tiers.external_api.network' } });
  });
});

describe('sqlite', () => {
  test.each([
    ['the name of the file', { file: "data/it's; touch made.txt.db", sql: 'SELECT 1' }],
    ['the statement', { file: 'data/shop.db', sql: "SELECT 1'; touch made.txt; echo '" }],
    ['a command of the shell of SQLite', { file: 'data/shop.db', sql: '.shell touch made.txt' }],
  ])('runs nothing that stands in %s', async (_, input) => {
    await client.call('sqlite__query', input);
    expect(existsSync(join(daemon.workspace, 'made.txt'))).toBe(false);
  });
});
