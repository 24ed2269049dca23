/** Home directories laid out on disk like version managers do. */
import { existsSync, mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { findPinned, findToolchains } from '../../../../src/cli/init/toolchains.ts';
import { toCommandEnvironment } from '../../../../src/daemon/command-environment.ts';

/** Not below /tmp: each sandbox has its own /tmp. */
const base = () =>
  realpathSync(
    mkdtempSync(join(existsSync('/opt') && process.getuid?.() === 0 ? '/opt' : homedir(), 'ringfence-home-')),
  );
const homes: string[] = [];
afterEach(() => {
  for (const it of homes.splice(0)) rmSync(it, { recursive: true });
});

function homeWith(paths: Record<string, string>): string {
  const home = base();
  homes.push(home);
  for (const [path, content] of Object.entries(paths)) {
    mkdirSync(dirname(join(home, path)), { recursive: true });
    if (content.startsWith('-> ')) symlinkSync(content.slice(3), join(home, path));
    else writeFileSync(join(home, path), content);
  }
  return home;
}

const find = (home: string, folders: readonly string[], closed: readonly string[] = []) =>
  findToolchains({ path: folders.map((it) => join(home, it)).join(':'), home, closed }).map(
    ({ manager, path }) => `${manager} ${path.slice(home.length + 1)}`,
  );

test.each([
  [
    'nvm',
    { '.nvm/versions/node/v24.1.0/bin/node': '' },
    '.nvm/versions/node/v24.1.0/bin',
    '.nvm/versions/node/v24.1.0',
  ],
  [
    'fnm',
    {
      '.local/share/fnm/node-versions/v22.0.0/installation/bin/node': '',
      'multishells/1': '-> ../.local/share/fnm/node-versions/v22.0.0/installation',
    },
    'multishells/1/bin',
    '.local/share/fnm/node-versions/v22.0.0/installation',
  ],
  [
    'volta',
    {
      '.volta/bin/node': '',
      '.volta/tools/user/platform.json': '{"node":{"runtime":"20.1.0","npm":null}}',
      '.volta/tools/image/node/20.1.0/bin/node': '',
    },
    '.volta/bin',
    '.volta/tools/image/node/20.1.0',
  ],
  [
    'asdf',
    {
      '.asdf/shims/node': '',
      '.tool-versions': 'nodejs 22.1.0\n# python 3\n',
      '.asdf/installs/nodejs/22.1.0/bin/node': '',
    },
    '.asdf/shims',
    '.asdf/installs/nodejs/22.1.0',
  ],
  [
    'mise',
    {
      '.local/share/mise/shims/go': '',
      '.config/mise/config.toml': '[tools]\ngo = "1.24"\n',
      '.local/share/mise/installs/go/1.24.1/bin/go': '',
      '.local/share/mise/installs/go/1.24': '-> 1.24.1',
    },
    '.local/share/mise/shims',
    '.local/share/mise/installs/go/1.24.1',
  ],
  [
    'pyenv',
    { '.pyenv/shims/python': '', '.pyenv/version': '3.12.1\n', '.pyenv/versions/3.12.1/bin/python': '' },
    '.pyenv/shims',
    '.pyenv/versions/3.12.1',
  ],
  [
    'uv',
    {
      '.local/bin/python3.12': '-> ../share/uv/python/cpython-3.12/bin/python3.12',
      '.local/share/uv/python/cpython-3.12/bin/python3.12': '',
    },
    '.local/bin',
    '.local/share/uv/python/cpython-3.12',
  ],
  [
    'rustup',
    {
      '.cargo/bin/cargo': '',
      '.rustup/settings.toml': 'default_toolchain = "stable-x86_64"\n',
      '.rustup/toolchains/stable-x86_64/bin/cargo': '',
    },
    '.cargo/bin',
    '.rustup/toolchains/stable-x86_64',
  ],
  ['go', { 'sdk/go1.24.0/bin/go': '' }, 'sdk/go1.24.0/bin', 'sdk/go1.24.0'],
  [
    'sdkman',
    { '.sdkman/candidates/java/21-tem/bin/java': '', '.sdkman/candidates/java/current': '-> 21-tem' },
    '.sdkman/candidates/java/current/bin',
    '.sdkman/candidates/java/21-tem',
  ],
  ['bun', { '.bun/bin/bun': '' }, '.bun/bin', '.bun/bin'],
  ['deno', { '.deno/bin/deno': '' }, '.deno/bin', '.deno/bin'],
])('%s is found behind its folder of PATH', (manager, files, folder, found) => {
  expect(find(homeWith(files), [folder])).toEqual([`${manager} ${found}`]);
});

const INSTALLED = {
  '.nvm/versions/node/v18.9.0/bin/node': '',
  '.nvm/versions/node/v18.20.4/bin/node': '',
  '.nvm/versions/node/v20.1.0/bin/node': '',
  '.nvm/alias/lts/hydrogen': 'v18.20.4\n',
  '.volta/tools/image/node/16.3.0/bin/node': '',
  '.pyenv/versions/3.11.4/bin/python': '',
  '.local/share/uv/python/cpython-3.12.1-linux-x86_64-gnu/bin/python': '',
  '.asdf/installs/nodejs/21.0.0/bin/node': '',
  '.local/share/mise/installs/go/1.24/bin/go': '',
  '.rustup/toolchains/1.75.0-x86_64-unknown-linux-gnu/bin/cargo': '',
  '.sdkman/candidates/java/21.0.2-tem/bin/java': '',
  'sdk/go1.22.3/bin/go': '',
  '.ssh/bin/node': '',
};
const NODE_18 = 'nvm .nvm/versions/node/v18.20.4';
test.each([
  ['.nvmrc', 'v18\n', [NODE_18]],
  ['.nvmrc', '18.9.0', ['nvm .nvm/versions/node/v18.9.0']],
  ['.nvmrc', 'lts/hydrogen\n', [NODE_18]],
  ['.nvmrc', '1', []],
  ['.nvmrc', '../../.ssh', []],
  ['.node-version', '18.20', [NODE_18]],
  ['package.json', '{"volta": {"node": "16.3.0"}}', ['volta .volta/tools/image/node/16.3.0']],
  ['.python-version', '3.11\n', ['pyenv .pyenv/versions/3.11.4']],
  ['.python-version', '3.12', ['uv .local/share/uv/python/cpython-3.12.1-linux-x86_64-gnu']],
  ['.tool-versions', 'nodejs 21.0.0\nnodejs ../../../.ssh\nnodejs ..\n', ['asdf .asdf/installs/nodejs/21.0.0']],
  ['mise.toml', '[tools]\ngo = "1.24"\nnode = "../../../../../.ssh"\n', ['mise .local/share/mise/installs/go/1.24']],
  [
    'rust-toolchain.toml',
    '[toolchain]\nchannel = "1.75.0"\n',
    ['rustup .rustup/toolchains/1.75.0-x86_64-unknown-linux-gnu'],
  ],
  ['rust-toolchain', '1.75.0\n', ['rustup .rustup/toolchains/1.75.0-x86_64-unknown-linux-gnu']],
  ['.sdkmanrc', 'java=21.0.2-tem\n', ['sdkman .sdkman/candidates/java/21.0.2-tem']],
  ['go.mod', 'module x\ntoolchain go1.22.3\n', ['go sdk/go1.22.3']],
])('%s with %j names an installed version, or nothing', (name, text, found) => {
  const home = homeWith({ ...INSTALLED, [`project/${name}`]: text });
  const pinned = findPinned(join(home, 'project'), { home, closed: [join(home, 'project')] });
  expect(pinned.map(({ manager, path }) => `${manager} ${path.slice(home.length + 1)}`)).toEqual(found);
});

test('a program outside PATH is not found', () => {
  expect(find(homeWith({ '.nvm/versions/node/v24.1.0/bin/node': '' }), ['bin'])).toEqual([]);
});

test('a version elsewhere or in a workspace is not shown', () => {
  const home = homeWith({
    '.pyenv/shims/python': '',
    '.pyenv/version': '../../.ssh\n',
    '.ssh/bin/x': '',
    '.nvm/versions/node/v1/bin/node': '',
  });
  expect(find(home, ['.pyenv/shims', '.nvm/versions/node/v1/bin'], [join(home, '.nvm')])).toEqual([]);
});

test('a link of a version to a folder with keys is not shown', () => {
  const home = homeWith({ '.ssh/bin/node': '', '.nvm/versions/node/v1': '-> ../../../.ssh' });
  expect(find(home, ['.nvm/versions/node/v1/bin'])).toEqual([]);
});

test("a command's PATH is the person's in its order, without what is not shown", () => {
  const home = homeWith({
    '.nvm/versions/node/v1/bin/node': '',
    '.rustup/toolchains/s/bin/cargo': '',
    '.local/bin/x': '',
    link: '-> .nvm/versions/node/v1',
  });
  const [nvm, rust] = [join(home, '.nvm/versions/node/v1'), join(home, '.rustup/toolchains/s')];
  const PATH = [
    join(home, '.local/bin'),
    '/usr/bin',
    join(home, 'link/bin'),
    '',
    'bin',
    '/nowhere',
    '/usr/bin/../bin',
  ].join(':');
  const shown = toCommandEnvironment({ PATH }, [nvm, rust]).PATH?.split(':');
  expect(shown?.slice(0, 3)).toEqual([join(rust, 'bin'), '/usr/bin', join(nvm, 'bin')]);
  expect(shown?.every((it) => /^\/(?:usr|bin|sbin)/.test(it) || it.startsWith(nvm) || it.startsWith(rust))).toBe(true);
});
