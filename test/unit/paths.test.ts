import { relative, resolve } from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { isInside, isProtected, isTrusted, wayBelow } from '../../src/base/paths.ts';

describe('isInside', () => {
  test.each([
    ['/ws', '/ws'],
    ['/ws', '/ws/'],
    ['/ws/', '/ws/a'],
    ['/ws', '/ws/a/../b'],
    ['/ws', '/ws/..a'],
    ['/ws', '/ws/...'],
    ['/ws', '/other/../ws/a'],
    ['/', '/anything'],
  ])('the folder %s contains %s', (folder, path) => {
    expect(isInside(folder, path)).toBe(true);
  });

  test.each([
    ['/ws', '/ws-evil'],
    ['/ws', '/ws-evil/x'],
    ['/ws', '/'],
    ['/ws', '/w'],
    ['/ws', '/ws/..'],
    ['/ws', '/ws/../etc'],
    ['/ws', '/ws/a/../../ws-evil'],
    ['/ws/a', '/ws'],
    ['/ws', '/WS/a'],
  ])('the folder %s does not contain %s', (folder, path) => {
    expect(isInside(folder, path)).toBe(false);
  });

  test('isInside holds for any path below a folder without .., and never for a sibling that begins alike', () => {
    const name = fc.stringMatching(/^[a-z.-]{1,8}$/).filter((it) => it !== '.' && it !== '..');
    fc.assert(
      fc.property(fc.array(name, { minLength: 1, maxLength: 4 }), fc.array(name, { maxLength: 4 }), name, (a, b, c) => {
        const folder = `/${a.join('/')}`;
        expect(isInside(folder, [folder, ...b].join('/'))).toBe(true);
        expect(isInside(folder, `${folder}${c}`)).toBe(false);
        expect(isInside(`${folder}/${c}`, folder)).toBe(false);
      }),
    );
  });

  test('says as the segments of both resolved paths do', () => {
    const path = fc
      .array(fc.constantFrom('a', 'b', '..', '.', 'ab', ''), { maxLength: 8 })
      .map((it) => `/${it.join('/')}`);
    const segments = (it: string): string[] => resolve(it).split('/').filter(Boolean);
    fc.assert(
      fc.property(path, path, (folder, inner) => {
        const [outer, below] = [segments(folder), segments(inner)];
        expect(isInside(folder, inner)).toBe(outer.every((it, i) => below[i] === it));
      }),
    );
  });
});

describe('isProtected', () => {
  test.each([
    ...['.git/hooks', '.git/config', '.mcp.json', '.vscode', '.idea', '.envrc', '.ringfence', '.husky', '.githooks'],
    ...[
      '.npmrc',
      '.yarnrc.yml',
      '.yarn/releases',
      '.claude',
      '.cursor',
      '.devcontainer',
      'mise.local.toml',
      '.gdbinit',
    ],
    ...['team.code-workspace', '.cargo/config.toml', 'rust-toolchain.toml', 'gradle-wrapper.jar', 'opencode.jsonc'],
  ])('isProtected holds for %s and what lies below it, in any case and in a nested folder', (path) => {
    for (const it of [path, `${path}/a`, `${path}/a/b`, path.toUpperCase(), `sub/${path}`, `a/b/${path}/c`])
      expect([it, isProtected(it)]).toEqual([it, true]);
  });

  test.each([
    ...['.gitignore', '.github/workflows/ci.yml', '.git-hooks', 'git/hooks/a', '.github/hooks', '.gitconfigs/config'],
    ...['.mcp.json.md', 'x.mcp.json', '.vscode-test/a', 'my.idea', '.envrc.example', '.ringfenced', 'ringfence', ''],
    ...['.vscode/extensions.json', 'a/.vscode/x.code-snippets', '.idea/a.iml', 'config.toml', '.yarn/cache/a.zip'],
    ...['node_modules/a/.vscode/tasks.json', 'a/node_modules/.npmrc', 'lib/site-packages/x/.idea/workspace.xml'],
  ])('isProtected does not hold for "%s"', (path) => {
    expect(isProtected(path)).toBe(false);
  });
});

describe('isTrusted', () => {
  test.each([
    ...[
      '.git/config',
      '.git/config.worktree',
      '.git/commondir',
      'sub/.git/config',
      '.GIT/Config',
      '.mcp.json',
      'a/.envrc',
    ],
    ...[
      '.git/modules/m/config',
      '.git/modules/logs/config',
      '.git/modules/a/b/modules/c/config',
      '.git/worktrees/w/commondir',
    ],
    ...['.git/worktrees/w/gitdir', 'worktree/.git'],
  ])('isTrusted holds for the file %s', (path) => {
    expect(isTrusted(path, 'file')).toBe(true);
  });
  test.each(['.git/hooks', 'sub/.git/hooks', '.git/modules/m/hooks', '.vscode', 'a/b/.idea', '.ringfence'])(
    'isTrusted holds for the directory %s',
    (path) => {
      expect(isTrusted(path, 'directory')).toBe(true);
    },
  );

  test.each([
    ...['.git', '.git/refs/heads/hooks', '.git/modules/m/refs/heads/config', '.git/modules/m/logs/refs/heads/hooks'],
    ...['.git/objects', 'config', 'hooks', 'src/daemon/config', '.github/config', '.git/modules/m', '.git/worktrees'],
  ])('isTrusted does not hold for the directory %s, which must stay writable', (path) => {
    expect(isTrusted(path, 'directory')).toBe(false);
  });
});

describe('wayBelow', () => {
  test('leads from the folder to the path, whatever their texts', () => {
    const segment = fc.constantFrom('a', 'b', 'ab', '..', '.', '', '...', '.a', 'a.');
    const path = fc.array(segment, { maxLength: 6 }).map((it) => `/${it.join('/')}`);
    fc.assert(
      fc.property(path, path, (folder, inside) => {
        const way = wayBelow(folder, inside);
        const plain = relative(folder, inside);
        expect(way).toBe(plain === '..' || plain.startsWith('../') ? undefined : plain);
      }),
      { numRuns: 3000 },
    );
  });
});
