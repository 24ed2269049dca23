import { execFileSync } from 'node:child_process';
import { mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { defaultLimits } from '../../../src/limits.ts';
import { holdsCredential, isOrdinary } from '../../../src/policy/ordinary-paths.ts';
import { temporaryDir } from '../../support/daemon.ts';

describe('a settings file', () => {
  test.each([
    '',
    'engine-strict=true\nsave-exact=true\n',
    'registry=https://registry.npmjs.org/\r\n@acme:registry=https://npm.acme.example/\r\n',
    '//npm.acme.example/:_authToken=${NPM_TOKEN}\nalways-auth=true\n',
    'fetch-retry-maxtimeout=60000\nstrict-peer-dependencies=false\nauto-install-peers=true\n',
    '[distutils]\nindex-servers =\n    internal\n\n[internal]\nrepository = https://pypi.acme.example/simple\n',
  ])('holds no credential: %j', (text) => expect(holdsCredential(text)).toBe(false));

  test.each([
    '//registry.npmjs.org/:_authToken=npm_abc',
    '//registry.npmjs.org/:_authToken=x=true',
    '//registry.npmjs.org/:_authToken=${A}b',
    '_AUTH = dXNlcjpwYXNz',
    '//r/:_password=cGFzcw==',
    'registry=https://me:hunter2@npm.acme.example/',
    'registry=https://npm.fury.io/aB3dE5fG7hJ9kL1m/acme/',
    'a=1\rpassword=hunter2',
    '[pypi]\nusername = __token__\npassword = pypi-AgEI',
    '[pypi]\npassword =\n  hunter2',
    '; old: _authToken=abc',
    'otp=123456',
    'key="-----BEGIN PRIVATE KEY-----',
    '"_auth\\u0054oken"=abc',
    '_\0a\0u\0t\0h\0=\0x\0',
    'init.author=Zoë',
  ])('may hold one: %j', (text) => expect(holdsCredential(text)).toBe(true));
});

describe('a path', () => {
  let folder: string;
  const at = (name: string) => join(folder, name);
  const settings = (name: string, text: string | Buffer) => {
    mkdirSync(at(name));
    writeFileSync(at(`${name}/.npmrc`), text);
    return at(`${name}/.npmrc`);
  };
  beforeAll(() => {
    folder = temporaryDir('ordinary');
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  test('is ordinary where it is a folder, or settings without a credential', () => {
    mkdirSync(at('password-reset'));
    expect(isOrdinary(at('password-reset'), defaultLimits)).toBe(true);
    expect(isOrdinary(settings('plain', 'engine-strict=true\n'), defaultLimits)).toBe(true);
    expect(isOrdinary(settings('most', '#'.repeat(defaultLimits.settingsFileBytesMax)), defaultLimits)).toBe(true);
  });

  test('is not where it is another file, missing, a link, no file, too large, or not text', () => {
    writeFileSync(at('passwords'), '');
    symlinkSync('plain', at('linked'));
    mkdirSync(at('link'));
    symlinkSync('../plain/.npmrc', at('link/.npmrc'));
    mkdirSync(at('pipe'));
    execFileSync('mkfifo', [at('pipe/.npmrc')]);
    const others = ['passwords', 'missing', 'missing/.npmrc', 'linked', 'linked/.npmrc', 'link/.npmrc', 'pipe/.npmrc'];
    for (const name of others) expect(isOrdinary(at(name), defaultLimits), name).toBe(false);
    expect(isOrdinary(settings('large', '#'.repeat(defaultLimits.settingsFileBytesMax + 1)), defaultLimits)).toBe(
      false,
    );
    expect(isOrdinary(settings('binary', Buffer.from([0xff, 0xfe, 0x61, 0])), defaultLimits)).toBe(false);
  });
});
