/** The command that `ringfence install` configures in clients. */
import { mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { version } from '../../../../src/base/runtime.ts';
import { launchOf } from '../../../../src/cli/install/launch.ts';
import { temporaryDir } from '../../../support/daemon.ts';

const folder = temporaryDir('launch');
const program = join(folder, 'app/node_modules/ringfence/bin/ringfence.js');
const cached = join(folder, '.npm/_npx/0123456789abcdef/node_modules/ringfence/bin/ringfence.js');
const linkIn = (path: string, target: string): string => {
  mkdirSync(path, { recursive: true });
  symlinkSync(target, join(path, 'ringfence'));
  return path;
};
beforeAll(() => {
  for (const it of [program, cached]) {
    mkdirSync(dirname(it), { recursive: true });
    writeFileSync(it, '');
  }
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test('a program on the PATH is called by its name, with the folders that were given', () => {
  const PATH = `/nowhere:${linkIn(join(folder, 'bin'), program)}`;
  expect(launchOf({ flags: { state: '/s' }, env: { PATH } }, program)).toEqual({
    command: 'ringfence',
    args: ['mcp', '--state', '/s'],
  });
});

test('the launcher on the PATH, as npm links it, is called by its name', () => {
  const launcher = program.replace(/\.js$/, '');
  writeFileSync(launcher, '');
  const PATH = linkIn(join(folder, 'global'), launcher);
  expect(launchOf({ flags: {}, env: { PATH } }, program)).toEqual({ command: 'ringfence', args: ['mcp'] });
});

test('a folder of packages that npm put on the PATH is not what a client has: Node and the file are named', () => {
  const PATH = linkIn(join(folder, 'app/node_modules/.bin'), program);
  expect(launchOf({ flags: {}, env: { PATH } }, program)).toEqual({
    command: process.execPath,
    args: [program, 'mcp'],
  });
});

test.each([
  ['ringfence', `ringfence@${version}`],
  ['ringfence@latest', `ringfence@${version}`],
  ['/somewhere/ringfence-0.1.0.tgz', '/somewhere/ringfence-0.1.0.tgz'],
])('if npx runs %s, clients are configured to ask npx for it, and not for a copy in its cache', (asked, spec) => {
  const cache = join(folder, '.npm/_npx/0123456789abcdef');
  rmSync(join(cache, 'node_modules/.bin'), { recursive: true, force: true });
  const PATH = linkIn(join(cache, 'node_modules/.bin'), cached);
  writeFileSync(join(cache, 'package.json'), JSON.stringify({ _npx: { packages: [asked] } }));
  expect(launchOf({ flags: {}, env: { PATH } }, cached)).toEqual({
    command: 'npx',
    args: ['--yes', `--package=${spec}`, '--', 'ringfence', 'mcp'],
  });
});
