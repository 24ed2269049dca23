/** Commands and tools trust an authority that the machine trusts: a company's, whose proxy signs for all hosts. */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Client } from '../../src/client.ts';
import { certificateVariables } from '../../src/sandbox/etc/certificates.ts';
import { dataOf, startDaemon, type TestDaemon, temporaryDir } from '../support/daemon.ts';

const store = certificateVariables.SSL_CERT_FILE ?? '';
const HOST = 'registry.company.example';
const VERSION = { name: 'x', version: '1.0.0', description: 'reached' };
const PACKAGE = { name: 'x', 'dist-tags': { latest: '1.0.0' }, versions: { '1.0.0': VERSION } };
/** Only root can have a daemon see another store, in a mount namespace of its own. */
const canTry = process.getuid?.() === 0 && store !== '';
if (!canTry) console.warn('skipped: authorities of the machine; they take root and a store of certificates');

describe.runIf(canTry)('authorities of the machine', () => {
  const folder = temporaryDir('authority');
  const at = (name: string) => join(folder, name);
  const openssl = (...words: string[]) => execFileSync('openssl', words, { cwd: folder, stdio: 'pipe' });
  let server: Server;
  let address: string;
  let daemon: TestDaemon;
  let client: Client;
  beforeAll(async () => {
    const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];
    openssl('req', '-x509', ...key, '-keyout', 'ca.key', '-out', 'ca.pem', '-subj', '/CN=Company', '-days', '2');
    openssl('req', ...key, '-keyout', 'own.key', '-out', 'own.csr', '-subj', `/CN=${HOST}`);
    writeFileSync(at('ext'), `subjectAltName=DNS:${HOST}\n`);
    const signed = ['-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial', '-extfile', 'ext', '-days', '2'];
    openssl('x509', '-req', '-in', 'own.csr', ...signed, '-out', 'own.pem');
    writeFileSync(at('store.pem'), readFileSync(store, 'utf8') + readFileSync(at('ca.pem'), 'utf8'));
    server = createServer({ key: readFileSync(at('own.key')), cert: readFileSync(at('own.pem')) }, (_, response) =>
      response.end(JSON.stringify(PACKAGE)),
    );
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
    address = `${HOST}:${(server.address() as AddressInfo).port}`;
    writeFileSync(at('hosts'), `127.0.0.1 localhost ${HOST}\n`);
    const network = `network: { allow: [{ host: "${address}", private: true }] }`;
    daemon = await startDaemon({
      policy: `extends: default\ntiers:\n  execute: { ${network} }\n  external_api: { decision: allow, ${network} }\n`,
      launcher: [
        'unshare',
        '-m',
        'sh',
        '-c',
        `mount --bind ${at('store.pem')} ${store} && mount --bind ${at('hosts')} /etc/hosts && exec "$@"`,
        'sh',
      ],
    });
    client = await daemon.connect();
  });
  afterAll(async () => {
    await daemon?.[Symbol.asyncDispose]();
    server?.close();
    rmSync(folder, { recursive: true });
  });

  const programs = {
    curl: 'curl -sS https://HOST/',
    npm: 'npm view x description --registry https://HOST/ --fetch-retries 0',
    Python: `python3 -c "import urllib.request as r; print(r.urlopen('https://HOST/').read().decode())"`,
  };
  test.each(Object.entries(programs))('an authority is trusted by %s', async (name, line) => {
    if (name === 'npm' && !existsSync('/usr/bin/npm') && !existsSync('/usr/local/bin/npm')) return;
    const { stdout, stderr } = await dataOf<{ stdout: string; stderr: string }>(
      client.call('terminal_execute', { command: line.replaceAll('HOST', address) }),
    );
    expect([stdout, stderr].join()).toContain('reached');
  });

  test('requests of tools trust it', async () => {
    const result = await client.call('http_request', { method: 'GET', url: `https://${address}/` });
    expect(result).toMatchObject({ success: true, data: { status: 200 } });
  });
});
