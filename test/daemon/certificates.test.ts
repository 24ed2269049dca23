/** Commands and tools trust an authority that the machine or the daemon's environment names: a company's, whose proxy signs for all hosts. */
import { execFileSync } from 'node:child_process';
import { hash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { STORE } from '../../src/sandbox/etc/certificates.ts';
import { dataOf, startDaemon, type TestDaemon, temporaryDir, until } from '../support/daemon.ts';

const HOST = 'registry.company.example';
const VERSION = { name: 'x', version: '1.0.0', description: 'reached' };
const PACKAGE = { name: 'x', 'dist-tags': { latest: '1.0.0' }, versions: { '1.0.0': VERSION } };
/** Only root can have a daemon see another store, in a mount namespace of its own. */
const canTry = process.getuid?.() === 0 && existsSync(STORE);
if (!canTry) console.warn('skipped: authorities of the machine; they take root and a store of certificates');

const JAVA = `public class Get { public static void main(String[] a) throws Exception {
  System.out.println(new String(new java.net.URI(a[0]).toURL().openStream().readAllBytes())); } }`;
const PROGRAMS = [
  ['curl', 'curl -sS https://HOST/'],
  ['wget', 'wget -qO- https://HOST/'],
  ['npm', 'npm view x description --registry https://HOST/ --fetch-retries 0'],
  ['python3', `python3 -c "import urllib.request as r; print(r.urlopen('https://HOST/').read().decode())"`],
  // It fails behind the handshake, since nothing here is a repository.
  ['git', 'git ls-remote https://HOST/x.git; echo reached'],
  ['pip', 'pip download --no-deps -d /tmp --index-url https://HOST/ x; echo reached'],
  ['java', `echo '${JAVA}' > Get.java && java Get.java https://HOST/`],
] as const;
const UNTRUSTED = /certificate|SSL|PKIX/i;

describe.runIf(canTry)('authorities of a company', () => {
  const folder = temporaryDir('authority');
  const at = (name: string) => join(folder, name);
  const openssl = (...words: string[]) => execFileSync('openssl', words, { cwd: folder, stdio: 'pipe' });
  let server: Server;
  let address: string;
  beforeAll(async () => {
    const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];
    openssl('req', '-x509', ...key, '-keyout', 'ca.key', '-out', 'ca.pem', '-subj', '/CN=Company', '-days', '2');
    openssl('req', ...key, '-keyout', 'own.key', '-out', 'own.csr', '-subj', `/CN=${HOST}`);
    writeFileSync(at('ext'), `subjectAltName=DNS:${HOST}\n`);
    const signed = ['-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial', '-extfile', 'ext', '-days', '2'];
    openssl('x509', '-req', '-in', 'own.csr', ...signed, '-out', 'own.pem');
    writeFileSync(at('system.pem'), execFileSync('sh', ['-c', 'cat /usr/share/ca-certificates/*/*.crt']));
    writeFileSync(at('store.pem'), readFileSync(STORE, 'utf8') + readFileSync(at('ca.pem'), 'utf8'));
    writeFileSync(at('with-key.pem'), readFileSync(at('ca.key'), 'utf8') + readFileSync(at('ca.pem'), 'utf8'));
    mkdirSync(at('package'));
    const manifest = { name: 'npm', version: '11.0.0', bin: { npm: 'npm' } };
    writeFileSync(at('package/package.json'), JSON.stringify(manifest));
    writeFileSync(at('package/npm'), '#!/bin/sh\n');
    const tarball = execFileSync('tar', ['-cz', '-C', folder, 'package']);
    const integrity = `sha512-${hash('sha512', tarball, 'base64')}`;
    server = createServer(
      { key: readFileSync(at('own.key')), cert: readFileSync(at('own.pem')) },
      (asked, response) => {
        const dist = { tarball: `https://${address}/npm.tgz`, integrity };
        const npm = { 'dist-tags': { latest: '11.0.0' }, versions: { '11.0.0': { ...manifest, dist } } };
        if (asked.url === '/npm.tgz') response.end(tarball);
        else response.end(JSON.stringify(asked.url === '/npm' ? npm : PACKAGE));
      },
    );
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
    address = `${HOST}:${(server.address() as AddressInfo).port}`;
    writeFileSync(at('hosts'), `127.0.0.1 localhost ${HOST}\n`);
  });
  afterAll(() => {
    server?.close();
    rmSync(folder, { recursive: true });
  });

  const startWith = (mounts: Record<string, string>, settings: Parameters<typeof startDaemon>[0] = {}) => {
    const mount = Object.entries(mounts).map(([to, from]) => `mount --bind ${at(from)} ${to}`);
    return startDaemon({
      ...settings,
      launcher: ['unshare', '-m', 'sh', '-c', `${mount.join(' && ')} && exec "$@"`, 'sh'],
    });
  };

  test.runIf(existsSync('/usr/share/ca-certificates'))(
    'an old Node reads no store when it starts, where nothing but the authorities of the system is trusted',
    async () => {
      await using daemon = await startWith({ [STORE]: 'system.pem' });
      const client = await daemon.connect();
      const { stdout } = await dataOf<{ stdout: string }>(client.call('terminal_execute', { command: 'env' }));
      expect(stdout).toContain(`SSL_CERT_FILE=${STORE}`);
      expect(stdout).not.toContain('NODE_EXTRA_CA_CERTS');
    },
  );

  describe.each([
    ['the store of the machine', { [STORE]: 'store.pem' }, {}],
    ["NODE_EXTRA_CA_CERTS in the daemon's environment", {}, { NODE_EXTRA_CA_CERTS: 'with-key.pem' }],
    ["SSL_CERT_FILE in the daemon's environment", {}, { SSL_CERT_FILE: 'with-key.pem' }],
  ])('an authority in %s', (_, mounts: Record<string, string>, env: Record<string, string>) => {
    let daemon: TestDaemon;
    let client: Client;
    const run = async (command: string) => {
      const words = { command: command.replaceAll('HOST', address), timeout: 60_000 };
      const data = await dataOf<{ stdout: string; stderr: string }>(client.call('terminal_execute', words));
      return `${data.stdout}\n${data.stderr}`;
    };
    beforeAll(async () => {
      const network = `network: { allow: [{ host: "${address}", private: true }] }`;
      daemon = await startWith(
        { ...mounts, '/etc/hosts': 'hosts' },
        {
          policy: `extends: default\ntiers:\n  execute: { ${network} }\n  external_api: { decision: allow, ${network} }\n`,
          config: { packages: { registry: `https://${address}` } },
          env: Object.fromEntries(Object.entries(env).map(([name, file]) => [name, at(file)])),
        },
      );
      client = await daemon.connect();
    });
    afterAll(() => daemon?.[Symbol.asyncDispose]());

    test.each(PROGRAMS)('%s trusts it', async (program, line) => {
      if ((await run(`command -v ${program}`)).trim() === '') return;
      const output = await run(line);
      expect(output).toContain('reached');
      expect(output.replaceAll(/^Picked up.*$/gm, '')).not.toMatch(UNTRUSTED);
    });

    test('requests of tools trust it', async () => {
      const url = `https://${address}/`;
      expect(await dataOf(client.call('http_request', { method: 'GET', url }))).toMatchObject({ status: 200 });
    });

    test('requests for toolchains trust it', async () => {
      await using operator = await daemon.connect({ role: 'operator' });
      const result = client.call('toolchain_request', { name: 'npm' });
      await until(async () => {
        const [{ approvalId, digest } = {}] = (await operator.request('approvals.list', {})).approvals;
        if (approvalId) await operator.request('approvals.resolve', { approvalId, digest, decision: 'approve' });
        return approvalId !== undefined;
      }, 30_000);
      expect(await result).toMatchObject({ success: true, data: { version: '11.0.0' } });
    });

    test('the key beside it is shown to nobody', async () => {
      const key = readFileSync(at('ca.key'), 'utf8').split('\n')[1] as string;
      expect(await run(`grep -rlsa -e ${key.slice(4, 40)} -e 'PRIVATE KEY' /etc/ssl /etc/authorities.* /run`)).toBe(
        '\n',
      );
      expect(await run(`cat ${at('ca.pem')}`)).toContain('No such file');
    });
  });
});
