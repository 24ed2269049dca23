/**
 * Requests that try to reach this machine and its networks under a policy that lists every block and many names. The
 * daemon is in a network namespace with nothing but loopback, whose kernel counts what is sent. A tool that makes
 * requests joins by a row of TOOLS.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { findChromium } from '../../src/sandbox/chromium.ts';
import { runCli } from '../support/cli.ts';
import { repository, startDaemon, type TestDaemon, temporaryDir } from '../support/daemon.ts';

/** Tools that make requests to a URL of their input. */
const TOOLS: [name: string, inputOf: (url: string) => object][] = [
  ['http_request', (url) => ({ url })],
  ['web_fetch', (url) => ({ url })],
  ['web_scrape', (url) => ({ url, selectors: { title: 'title' } })],
];

const LITERALS = [
  ...[
    '127.0.0.1',
    '127.1',
    '127.0.1',
    '127.0.0.1.',
    '2130706433',
    '017700000001',
    '0177.0.0.1',
    '0x7f.0.0.1',
    '0x7f000001',
  ],
  ...['127。0。0。1', '①②⑦.0.0.1', '0', '0.0.0.0', '[::]', '[::1]', '[0:0:0:0:0:0:0:1]'],
  ...[
    '[::ffff:127.0.0.1]',
    '[::ffff:7f00:1]',
    '[::127.0.0.1]',
    '[64:ff9b::127.0.0.1]',
    '[64:ff9b:1::7f00:1]',
    '[2002:7f00:1::]',
  ],
  ...[
    '169.254.169.254',
    '2852039166',
    '0xa9fea9fe',
    '0251.0376.0251.0376',
    '[::ffff:169.254.169.254]',
    '[64:ff9b::a9fe:a9fe]',
  ],
  ...['[fd00:ec2::254]', '100.100.100.200', '168.63.129.16', '10.0.0.1', '172.16.0.1', '192.168.0.1', '100.64.0.1'],
  ...['[fc00::1]', '[fe80::1]', '[ff02::1]', '224.0.0.1', '255.255.255.255', '198.18.0.1'],
];
const NAMED = ['localhost', 'LOCALHOST.', 'inwards.test', 'metadata.test', 'nowhere.test', 'mixed.test'];
const REBINDING = 'connector.rebinding.test';

/** Connectors whose service leads elsewhere, and one for each name that leads inwards. */
const CONNECTORS = () => [
  `
connector: open
base: http://127.0.0.1:${ports.open}
operations:
  follow:
    description: Asks for a redirect.
    request: { method: GET, path: /followed, query: { to: "\${input.to}" } }
    input: { to: { type: string, description: A URL. } }
    output: { status: status }
  read:
    description: Asks for a page that has a next one.
    request: { method: GET, path: /linked, query: { to: "\${input.to}" } }
    input: { to: { type: string, description: A URL. } }
    output: { items: { each: $, fields: { id: $.id } } }
    paginate: { kind: link }
`,
  ...[...NAMED, REBINDING].map(
    (host, at) => `
connector: named${at}
base: https://${host}:${ports.closed}
operations:
  get:
    description: Asks for anything.
    request: { method: GET, path: / }
    output: { status: status }
`,
  ),
];

let daemon: TestDaemon;
let client: Client;
let servers: ChildProcess;
let reached = 0;
let policy = '';
let ports = { open: 0, closed: 0 };
const folder = temporaryDir('ssrf');

/** Starts the daemon once the namespace is there, and servers beside it, whose ports its policy must name. */
async function start(): Promise<void> {
  writeFileSync(join(folder, 'resolv.conf'), 'nameserver 127.0.0.1\noptions timeout:1 attempts:1\n');
  const holder = spawn(
    'unshare',
    [
      '--net',
      '--mount',
      'sh',
      '-c',
      `ip link set lo up && mount --bind ${folder}/resolv.conf /etc/resolv.conf && exec "$@"`,
      'sh',
      process.execPath,
      join(repository, 'test/fixtures/web/inside.ts'),
    ],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  );
  servers = holder;
  const lines = createInterface({ input: holder.stdout as NodeJS.ReadableStream });
  const said = new Promise<string>((resolve) => lines.once('line', resolve));
  ports = JSON.parse(await said) as typeof ports;
  lines.on('line', () => (reached += 1));
  const allow = [
    { host: '0.0.0.0/0', port: '*' },
    { host: '::/0', port: '*' },
    { host: '*.test', port: '*' },
    { host: 'localhost', port: '*' },
    `127.0.0.1:${ports.open}`,
  ];
  policy = `tiers:\n  external_api: { decision: allow, network: { allow: ${JSON.stringify(allow)} } }\n`;
  daemon = await startInside({ provider: 'searxng', url: `http://127.0.0.1:${ports.open}` });
  client = await daemon.connect({ role: 'operator' });
  await addConnectors();
}

/** A daemon in the namespace, which asks that service for searches. */
const startInside = (search: object): Promise<TestDaemon> =>
  startDaemon({
    policy,
    config: { search },
    launcher: ['nsenter', '--net', '--mount', '--target', String(servers.pid), '--'],
  });

async function addConnectors(): Promise<void> {
  const all = CONNECTORS();
  for (const [at, text] of all.entries()) {
    const file = join(folder, `${at}.yaml`);
    writeFileSync(file, text);
    expect(await runCli(daemon, ['connector', 'add', file])).toMatchObject({ code: 0 });
  }
  const { connectors } = (await client.request('status', {})) as { connectors: object[] };
  expect(connectors).toHaveLength(all.length);
}

/** A host as a header can name it, which has ASCII only: URLs may spell any other character in percent. */
const spelled = (host: string): string => host.replaceAll(/[^ -~]/gu, encodeURIComponent);

/** TCP connections that were begun in the namespace. */
function connectionsBegun(): number {
  const [names = '', values = ''] = readFileSync(`/proc/${servers.pid}/net/snmp`, 'utf8').match(/^Tcp:.*$/gm) ?? [];
  return Number(values.split(' ')[names.split(' ').indexOf('ActiveOpens')]);
}

describe.runIf(process.getuid?.() === 0)('in a namespace without a network', () => {
  beforeAll(start, 120_000);
  afterAll(async () => {
    await client[Symbol.asyncDispose]();
    await daemon[Symbol.asyncDispose]();
    servers.kill();
    rmSync(folder, { recursive: true });
  });

  describe.each(TOOLS)('%s', (tool, inputOf) => {
    const ask = (url: string) => client.call(tool, inputOf(url));

    test.each([...LITERALS, ...NAMED])(
      'a request to http://%s is refused before a connection is begun',
      async (host) => {
        const before = connectionsBegun();
        const result = await ask(`http://${host}:${ports.closed}/`);
        expect(result).toMatchObject({
          success: false,
          error: { code: 'POLICY_DENIED', rule: 'tiers.external_api.network' },
        });
        expect(connectionsBegun()).toBe(before);
        expect(reached).toBe(0);
      },
    );

    test.each([...LITERALS, ...NAMED])('follows no redirect to http://%s', async (host) => {
      const before = connectionsBegun();
      const to = encodeURIComponent(`http://${spelled(host)}:${ports.closed}/`);
      const result = await ask(`http://127.0.0.1:${ports.open}/${to}`);
      expect(result).toMatchObject({ success: false, error: { code: 'POLICY_DENIED' } });
      expect(connectionsBegun()).toBe(before + 1);
      expect(reached).toBe(0);
    });

    test('reaches nothing inside by a name that leads outside at first', async () => {
      const url = `http://${tool}.rebinding.test:${ports.closed}/`;
      const codes = new Set<string>();
      for (let round = 0; round < 4; round += 1)
        codes.add(JSON.stringify(await ask(url)).match(/[A-Z]+_[A-Z]+/)?.[0] ?? '');
      expect([...codes]).toEqual(['UPSTREAM_FAILED', 'POLICY_DENIED']);
      expect(reached).toBe(0);
    });
  });

  describe('a connector', () => {
    const ask = (tool: string, input: object = {}) => client.call(tool as never, input as never);

    test.each(LITERALS.concat(NAMED))('follows no redirect and no link to http://%s', async (host) => {
      const before = connectionsBegun();
      const to = `http://${spelled(host)}:${ports.closed}/`;
      for (const tool of ['open__follow', 'open__read'])
        expect(await ask(tool, { to })).toMatchObject({ success: false, error: { code: 'UPSTREAM_FAILED' } });
      expect(connectionsBegun()).toBe(before + 2);
      expect(reached).toBe(0);
    });

    test.each([...NAMED.entries()])('%i whose host is %s is refused before a connection is begun', async (at) => {
      const before = connectionsBegun();
      expect(await ask(`named${at}__get`)).toMatchObject({ success: false, error: { code: 'POLICY_DENIED' } });
      expect(connectionsBegun()).toBe(before);
      expect(reached).toBe(0);
    });

    test('reaches nothing inside by a name that leads outside at first', async () => {
      const codes = new Set<string>();
      for (let round = 0; round < 4; round += 1) {
        const result = await ask(`named${NAMED.length}__get`);
        codes.add(result.success ? 'reached' : result.error.code);
      }
      expect([...codes]).toEqual(['UPSTREAM_FAILED', 'POLICY_DENIED']);
      expect(reached).toBe(0);
    });
  });

  describe('web_search', () => {
    const ask = (by: Client, query: string) => by.call('web_search' as never, { query } as never);

    test.each(LITERALS.concat(NAMED))('follows no redirect to http://%s', async (host) => {
      const before = connectionsBegun();
      expect(await ask(client, `http://${spelled(host)}:${ports.closed}/`)).toMatchObject({
        success: false,
        error: { code: 'UPSTREAM_FAILED' },
      });
      expect(connectionsBegun()).toBe(before + 1);
      expect(reached).toBe(0);
    });

    test.each(NAMED)(
      'web_search by a service at %s is refused before a connection is begun',
      { timeout: 120_000 },
      async (host) => {
        await using other = await startInside({ provider: 'searxng', url: `http://${host}:${ports.closed}` });
        await using by = await other.connect();
        const before = connectionsBegun();
        expect(await ask(by, 'x')).toMatchObject({ success: false, error: { code: 'POLICY_DENIED' } });
        expect(connectionsBegun()).toBe(before);
        expect(reached).toBe(0);
      },
    );
  });

  describe.runIf(findChromium())('web_screenshot', () => {
    const ask = (url: string) =>
      client.call('web_screenshot' as string, { url, width: 64, height: 64, waitMs: 1_000 } as never);

    test.each([...LITERALS, ...NAMED])(
      'a screenshot of http://%s is refused before a connection is begun',
      async (host) => {
        const begun = async () => {
          const before = connectionsBegun();
          expect(await ask(`http://${host}:${ports.closed}/`)).toMatchObject({
            success: false,
            error: { code: 'POLICY_DENIED', rule: 'tiers.external_api.network' },
          });
          return connectionsBegun() - before;
        };
        // The counter is that of the whole namespace; what the page begins, it begins each time.
        expect((await begun()) && (await begun())).toBe(0);
        expect(reached).toBe(0);
      },
    );

    test('follows no redirect to an address or name of this machine', async () => {
      for (const host of ['2130706433', 'metadata.test']) {
        const to = encodeURIComponent(`http://${host}:${ports.closed}/`);
        expect(await ask(`http://127.0.0.1:${ports.open}/${to}`)).toMatchObject({
          success: false,
          error: { code: 'POLICY_DENIED' },
        });
      }
      expect(reached).toBe(0);
    });

    test('shows a page whose parts, and their redirects, lead to each of them, and reaches none', async () => {
      const before = connectionsBegun();
      // A header has ASCII only, and so have requests of this page: its server's first line is short.
      const hosts = [...LITERALS, ...NAMED].filter((it) => /^[ -~]+$/.test(it));
      const parts = hosts.flatMap((it) => {
        const url = `http://${it}:${ports.closed}/`;
        return [`<img src=${url}>`, `<img src=/${encodeURIComponent(url)}>`];
      });
      const result = await ask(`http://127.0.0.1:${ports.open}/page/${encodeURIComponent(parts.join(''))}`);
      expect(result).toMatchObject({ success: true });
      const { blockedRequests } = (result as { data: { blockedRequests: { target: string }[] } }).data;
      expect(blockedRequests.length).toBeGreaterThan(hosts.length / 3);
      // The page itself, its icon, and one for each redirect, which Chromium asks for again if it leads nowhere.
      expect(connectionsBegun() - before).toBeLessThanOrEqual(2 * hosts.length + 2);
      expect(reached).toBe(0);
    });
  });

  test('the policy lists enough that a listed address of the machine is reached', async () => {
    const result = await client.call('http_request', {
      url: `http://127.0.0.1:${ports.open}/x`,
      followRedirects: false,
    });
    expect(result).toMatchObject({ success: true, data: { status: 302 } });
  });
});
