import { execFileSync } from 'node:child_process';
import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { defaultLimits } from '../../../src/base/limits.ts';
import { holdsCredential, isOrdinary, ordinaryPathsIn } from '../../../src/policy/secrets/ordinary-paths.ts';
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

describe('paths', () => {
  let folder: string;
  const at = (name: string) => join(folder, name);
  const settings = (name: string, text: string | Buffer) => {
    mkdirSync(at(name));
    writeFileSync(at(`${name}/.npmrc`), text);
    return `${name}/.npmrc`;
  };
  const ordinary = (name: string) => isOrdinary(folder, name, defaultLimits);
  beforeAll(() => {
    folder = temporaryDir('ordinary');
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  test('a path is ordinary where it is a folder, or settings without a credential', () => {
    mkdirSync(at('password-reset'));
    expect(ordinary('password-reset')).toBe(true);
    expect(ordinary(settings('plain', 'engine-strict=true\n'))).toBe(true);
    expect(ordinary(settings('most', '#'.repeat(defaultLimits.settingsFileBytesMax)))).toBe(true);
  });

  test('a path is not ordinary where it is another file, missing, a link, no file, too large, or not text', () => {
    writeFileSync(at('passwords'), '');
    symlinkSync('plain', at('linked'));
    mkdirSync(at('link'));
    symlinkSync('../plain/.npmrc', at('link/.npmrc'));
    mkdirSync(at('pipe'));
    execFileSync('mkfifo', [at('pipe/.npmrc')]);
    const others = ['passwords', 'missing', 'missing/.npmrc', 'linked', 'linked/.npmrc', 'link/.npmrc', 'pipe/.npmrc'];
    for (const name of others) expect(ordinary(name), name).toBe(false);
    expect(ordinary(settings('large', '#'.repeat(defaultLimits.settingsFileBytesMax + 1)))).toBe(false);
    expect(ordinary(settings('binary', Buffer.from([0xff, 0xfe, 0x61, 0])))).toBe(false);
  });
});

describe('keys', () => {
  let folder: string;
  const git = (...words: string[]) =>
    execFileSync('git', ['-c', 'user.name=Ada', '-c', 'user.email=ada@example.org', ...words], { cwd: folder });
  const commit = () => {
    git('add', '-Af');
    git('commit', '-qm', 'all');
  };
  const ordinary = (name: string, root = folder) => isOrdinary(root, name, defaultLimits);
  /** No key, but begins like one. */
  const pem = (word: string) => `-----BEGIN ${'CERTIFICATE'}-----\n${word.repeat(64)}\n`;
  beforeEach(() => {
    folder = temporaryDir('keys');
    git('init', '-q');
    for (const name of ['a.pem', 'test/B.KEY', 'test/id_rsa'].map((it) => join(folder, it))) {
      mkdirSync(dirname(name), { recursive: true });
      writeFileSync(name, pem(name));
    }
    commit();
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  test.each([false, true])('a key in the objects of the repository is ordinary (packed: %s)', (isPacked) => {
    if (isPacked) git('gc', '-q');
    expect(['a.pem', 'test/B.KEY', 'test/id_rsa'].map((it) => ordinary(it))).toEqual([true, true, true]);
    expect(ordinary('B.KEY', join(folder, 'test')), 'its repository lies above the workspace').toBe(false);
  });

  test('keys beyond those that one question looks at stay secrets', () => {
    const ordinary = ordinaryPathsIn(folder, { ...defaultLimits, settingsFilesMax: 2 });
    expect(['a.pem', 'test', 'test/B.KEY', 'a.pem', 'test/id_rsa', '/etc'].map(ordinary)).toEqual([
      ...[true, true, true, true, false, false],
    ]);
  });

  test('a key with bytes that no object has stays a secret', () => {
    expect(ordinary('a.pem')).toBe(true);
    writeFileSync(join(folder, 'a.pem'), pem('other'));
    writeFileSync(join(folder, 'new.pem'), pem('new'));
    expect(['a.pem', 'new.pem'].map((it) => ordinary(it))).toEqual([false, false]);
    commit();
    git('rm', '-q', '--cached', 'new.pem');
    expect(
      ['a.pem', 'new.pem'].map((it) => ordinary(it)),
      'the objects are read, not the index',
    ).toEqual([true, true]);
  });

  test('a key that is a word to be guessed, or of another name, stays a secret', () => {
    for (const name of ['word.key', 'prod.env', 'vault.kdbx', 'a.pem.bak'])
      writeFileSync(join(folder, name), name === 'word.key' ? 'p'.repeat(200) : pem('it'));
    commit();
    for (const name of ['word.key', 'prod.env', 'vault.kdbx', 'a.pem.bak']) expect(ordinary(name), name).toBe(false);
  });

  test.each(['.git', '.git/objects'])('a key in a repository that a link at %s leads to is no ordinary file', (at) => {
    const outside = temporaryDir('outside');
    renameSync(join(folder, at), join(outside, 'moved'));
    symlinkSync(join(outside, 'moved'), join(folder, at));
    expect(ordinary('a.pem')).toBe(false);
    rmSync(outside, { recursive: true });
  });

  test.each(['', 'short', `\xfftOc\0\0\0\x02${'\xff'.repeat(1024)}`])(
    'beside a broken index of a pack stays a secret',
    (index) => {
      writeFileSync(join(folder, '.git/objects/pack/x.idx'), Buffer.from(index, 'latin1'));
      writeFileSync(join(folder, 'new.pem'), pem('new'));
      expect(ordinary('new.pem')).toBe(false);
      expect(ordinary('a.pem')).toBe(true);
    },
  );
});
