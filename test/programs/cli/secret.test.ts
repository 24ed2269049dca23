/** Runs `ringfence secret` like a person, without a daemon. */
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { spawn } from '@lydell/node-pty';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { defaultLimits } from '../../../src/base/limits.ts';
import { Secrets } from '../../../src/services/secrets/secrets.ts';
import { toSecretSettings } from '../../../src/services/secrets/settings.ts';
import { runCli } from '../../support/cli.ts';
import { removeTree, ringfence, temporaryDir } from '../../support/daemon.ts';

const CANARY = 'canary-value-4711';
let stateDir: string;
const run = (args: string[], stdin?: string, env?: Record<string, string>) =>
  runCli({ stateDir, socket: join(stateDir, 'd.sock'), workspace: stateDir }, args, {
    ...(stdin !== undefined && { stdin }),
    ...(env && { env }),
  });
const secretsOf = (settings = toSecretSettings({}, {})) => new Secrets({ stateDir, settings, limits: defaultLimits });

beforeAll(() => {
  stateDir = temporaryDir('state');
});
afterAll(() => removeTree(stateDir));

describe('secret set', () => {
  test('stores what standard input holds in a file that only its owner can read, without its last line end', async () => {
    const { code, stdout } = await run(['secret', 'set', 'api_key'], `${CANARY}\n`);
    expect([code, stdout]).toEqual([0, 'stored api_key; bound to no host yet\n']);
    const file = join(stateDir, 'secrets/api_key.secret');
    expect([readFileSync(file, 'utf8'), statSync(file).mode & 0o777]).toEqual([CANARY, 0o600]);
    expect(statSync(join(stateDir, 'secrets')).mode & 0o777).toBe(0o700);
  });

  test('takes no value as an argument, and does not repeat one that stands in place of the name', async () => {
    expect(await run(['secret', 'set', 'api_key', CANARY], '')).toMatchObject({ code: 2 });
    const { code, stderr, stdout } = await run(['secret', 'set', `sk_${CANARY.toUpperCase()}`], 'x');
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).not.toContain('CANARY');
  });

  test('refuses an empty secret', async () => {
    expect(await run(['secret', 'set', 'empty'], '\n')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('the secret is empty'),
    });
  });

  test('secret set at a terminal asks for the secret without showing what is typed', async () => {
    const child = spawn(process.execPath, [ringfence, 'secret', 'set', 'typed'], {
      env: { PATH: process.env.PATH ?? '', HOME: '/nonexistent', RINGFENCE_STATE: stateDir },
    });
    let shown = '';
    let isTyped = false;
    child.onData((data) => {
      shown += data;
      if (isTyped || !shown.includes('typed (not shown): ')) return;
      isTyped = true;
      child.write(`${CANARY}\r`);
    });
    await new Promise((resolve) => child.onExit(resolve));
    expect(shown).not.toContain(CANARY);
    expect(readFileSync(join(stateDir, 'secrets/typed.secret'), 'utf8')).toBe(CANARY);
  });
});

describe('secret list', () => {
  test('shows names, places and hosts, never a value', async () => {
    await run(['secret', 'set', 'bound', '--host', 'api.example.org', '--host', '127.0.0.1:8443'], CANARY);
    const config = join(stateDir, 'secrets.yaml');
    writeFileSync(config, 'secrets:\n  asked: { command: [printf, "%s", from-a-program] }\n');
    const { stdout } = await run(['secret', 'list', '--json'], '', { RINGFENCE_CONFIG: config });
    expect(JSON.parse(stdout)).toEqual(
      expect.arrayContaining([
        { name: 'asked', place: 'command', hosts: null },
        { name: 'bound', place: 'state', hosts: ['api.example.org:443', '127.0.0.1:8443'] },
      ]),
    );
    expect((await run(['secret', 'list'])).stdout).not.toContain(CANARY);
  });
});

describe('a secret', () => {
  test('a secret is sent only to the hosts that it is bound to, and by https only', async () => {
    const secrets = secretsOf();
    await expect(secrets.read({ name: 'bound' }, 'https://api.example.org/x')).resolves.toBe(CANARY);
    await expect(secrets.read({ name: 'bound' }, 'https://evil.example/x')).rejects.toMatchObject({
      code: 'ACCESS_DENIED',
    });
    await expect(secrets.read({ name: 'bound' }, 'http://api.example.org/x')).rejects.toMatchObject({
      code: 'ACCESS_DENIED',
    });
    await expect(secrets.read({ name: 'bound' }, 'http://127.0.0.1:8443/')).resolves.toBe(CANARY);
  });

  test('a missing secret is AUTH_REQUIRED, with where to get one', async () => {
    expect(() => secretsOf().assertConfigured({ name: 'nowhere', setup: 'https://x.example/keys' })).toThrow(
      expect.objectContaining({
        code: 'AUTH_REQUIRED',
        extras: expect.objectContaining({ suggestion: expect.stringContaining('https://x.example/keys') }),
      }),
    );
  });

  test('comes from a program first, then from the credentials of the service', async () => {
    const credentialsDir = mkdtempSync(join(stateDir, 'credentials-'));
    writeFileSync(join(credentialsDir, 'bound'), 'from-systemd\n', { mode: 0o400 });
    const settings = toSecretSettings(
      { asked: { command: ['printf', '%s\n', 'from-a-program'] } },
      { PATH: process.env.PATH, CREDENTIALS_DIRECTORY: credentialsDir },
    );
    const secrets = secretsOf(settings);
    await expect(secrets.read({ name: 'asked' }, 'https://a.example/')).resolves.toBe('from-a-program');
    await expect(secrets.read({ name: 'bound' }, 'https://api.example.org/')).resolves.toBe('from-systemd');
  });

  test('a secret whose program fails is AUTH_REQUIRED, without what the program printed', async () => {
    const command = ['sh', '-c', `echo ${CANARY} >&2; echo ${CANARY}; exit 3`];
    const settings = toSecretSettings({ broken: { command } }, { PATH: process.env.PATH });
    const error = await secretsOf(settings)
      .read({ name: 'broken' }, 'https://a.example/')
      .catch((it: Error) => it);
    expect(error).toMatchObject({ code: 'AUTH_REQUIRED', message: expect.stringContaining('failed (3)') });
    expect((error as Error).message).not.toContain(CANARY);
  });

  test('a secret whose file others may write is refused', async () => {
    await run(['secret', 'set', 'open'], CANARY);
    chmodSync(join(stateDir, 'secrets/open.secret'), 0o622);
    await expect(secretsOf().read({ name: 'open' }, 'https://a.example/')).rejects.toMatchObject({
      code: 'AUTH_REQUIRED',
    });
  });
});

test('secret remove removes the file and its hosts, and says so if there is none', async () => {
  expect((await run(['secret', 'remove', 'bound'])).code).toBe(0);
  expect(readdirSync(join(stateDir, 'secrets'))).not.toContain('bound.secret');
  expect(readFileSync(join(stateDir, 'secrets/hosts.json'), 'utf8')).not.toContain('bound');
  expect((await run(['secret', 'remove', 'bound'])).code).toBe(1);
});

test('a backup leaves secrets out, and a restore keeps those that are there', async () => {
  const file = join(temporaryDir('backup'), 'b.tgz');
  await run(['secret', 'set', 'kept'], CANARY);
  expect((await run(['backup', file])).stdout).toContain('Secrets are left out.');
  expect((await run(['restore', file])).code).toBe(0);
  expect(readFileSync(join(stateDir, 'secrets/kept.secret'), 'utf8')).toBe(CANARY);
  const kept = readdirSync(join(stateDir, '..')).filter((it) => it.startsWith(`${stateDir.split('/').at(-1)}.before-`));
  for (const it of kept) {
    expect(readdirSync(join(stateDir, '..', it))).not.toContain('secrets');
    removeTree(join(stateDir, '..', it));
  }
  rmSync(join(file, '..'), { recursive: true });
});
