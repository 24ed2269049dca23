/** A network that lets connections out by a proxy alone, as companies have them: the daemon's environment names it. */
import { readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import { type AddressInfo, connect } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { defaultLimits } from '../../src/base/limits.ts';
import { storeSecret } from '../../src/services/secrets/secret-files.ts';
import { dataOf, type OpenDaemon, openDaemon, temporaryDir } from '../support/daemon.ts';
import { authorityIn } from '../support/service.ts';

const NAME = 'only-the-proxy-knows.example';
const POLICY = `
version: 1
extends: default
open: [tiers]
tiers:
  execute: { decision: allow, reason: x, network: { allow: ["${NAME}:80", "refused.example:80"] } }
  external_api: { decision: allow, reason: x, network: { allow: ["${NAME}:80"] } }
`;

/** The server behind the proxy, and what the proxy was asked for. */
let server: Server;
let proxy: Server;
let daemon: OpenDaemon;
const asked: string[] = [];
const keys = new Set<string | undefined>();

const portOf = (it: Server): number => (it.address() as AddressInfo).port;
const listening = (it: Server): Promise<Server> => new Promise((done) => it.listen(0, '127.0.0.1', () => done(it)));

describe.each(['http', 'https'])('a proxy at %s', (protocol) => {
  beforeAll(async () => {
    asked.length = 0;
    const { key, ca } = authorityIn(temporaryDir('proxy'));
    const listener =
      protocol === 'http' ? createServer() : createSecureServer({ key: readFileSync(key), cert: readFileSync(ca) });
    server = await listening(createServer((_, response) => response.end('reached')));
    proxy = await listening(
      listener.on('connect', ({ url = '', headers }, socket) => {
        asked.push(url);
        keys.add(headers['proxy-authorization']);
        if (!url.startsWith(NAME)) return void socket.end('HTTP/1.1 403 Forbidden\r\n\r\n');
        const upstream = connect(portOf(server), '127.0.0.1', () => {
          socket.write('HTTP/1.1 200 OK\r\n\r\n');
          socket.pipe(upstream).pipe(socket);
        });
        for (const it of [upstream, socket]) it.on('error', () => {});
      }),
    );
    const stateDir = temporaryDir('state');
    const url = `${protocol}://who@127.0.0.1:${portOf(proxy)}`;
    storeSecret(stateDir, { name: 'outgoing-proxy', value: 'pass word' }, defaultLimits);
    daemon = await openDaemon({
      stateDir,
      policy: POLICY,
      env: { HTTPS_PROXY: url, NO_PROXY: 'direct.example', NODE_EXTRA_CA_CERTS: ca },
    });
  });
  afterAll(async () => {
    await daemon[Symbol.asyncDispose]();
    for (const it of [server, proxy]) it.closeAllConnections();
    for (const it of [server, proxy]) it.close();
  });

  test('commands and requests reach hosts by the proxy, with its password, which they never see', async () => {
    const client = await daemon.connect();
    const command = `curl -s http://${NAME}/; env; cat /proc/*/environ | tr "\\0" "\\n"`;
    const { stdout } = (await dataOf(client.call('terminal_execute', { command }))) as { stdout: string };
    expect(stdout).toContain('reached');
    expect(stdout).not.toMatch(/pass(%20| )word/);
    expect(await dataOf(client.call('http_request', { url: `http://${NAME}/`, method: 'GET' }))).toMatchObject({
      status: 200,
    });
    expect(asked).toEqual([`${NAME}:80`, `${NAME}:80`]);
    expect([...keys]).toEqual([`Basic ${Buffer.from('who:pass word').toString('base64')}`]);
  });

  test('hosts that the policy does not list, and names of this machine, are not asked for at the proxy', async () => {
    const client = await daemon.connect();
    const before = asked.length;
    const command =
      'curl -s http://unlisted.example/; curl -s http://localhost:1/; curl -s http://169.254.169.254/; true';
    await client.call('terminal_execute', { command });
    expect(asked.slice(before)).toEqual([]);
  });

  test('a refusal of the proxy is told with its status, and a bad address of it ends the start with a sentence', async () => {
    const client = await daemon.connect();
    const command = 'curl -s http://refused.example/';
    const { stdout } = (await dataOf(client.call('terminal_execute', { command }))) as { stdout: string };
    expect(stdout).toMatch(/the outgoing proxy answered with 403, by 127\.0\.0\.1:\d+/);
    await expect(openDaemon({ env: { HTTPS_PROXY: 'socks5://127.0.0.1:1' } })).rejects.toThrow(/HTTPS_PROXY/);
  });
});
