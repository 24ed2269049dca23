/** Paths as agents write them, on a real workspace that a link leads to. */
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { toRelative } from '../../src/base/written-paths.ts';
import { parseInput } from '../../src/pipeline/input/validate.ts';
import { builtinToolset } from '../../src/tools/registry.ts';

let home: string;
let workspace: string;
beforeAll(() => {
  home = realpathSync(mkdtempSync(join(tmpdir(), 'ringfence-written-')));
  workspace = join(home, 'real ws');
  mkdirSync(join(workspace, 'sub'), { recursive: true });
  writeFileSync(join(workspace, 'a.txt'), '');
  symlinkSync('a.txt', join(workspace, 'link'));
  symlinkSync('real ws', join(home, 'project'));
  symlinkSync('real ws/sub', join(home, 'part'));
});
afterAll(() => rmSync(home, { recursive: true }));

test.each([
  ['$W/a.txt', 'a.txt'],
  ['$W', '.'],
  ['$W/', '.'],
  ['$W//sub/./x', 'sub/./x'],
  ['$W/sub/../../x', 'sub/../../x'],
  ['$W/link', 'link'],
  ['$H/project/link', 'link'],
  ['$H/part/new/b', 'sub/new/b'],
  ['~/project/a.txt', 'a.txt'],
  ['~/real ws/a.txt', 'a.txt'],
  ['file://$W/a%2etxt', 'a.txt'],
  ['file://$H/project/sub', 'sub'],
  ['a.txt', 'a.txt'],
  ['../x', '../x'],
  ['./~/x', './~/x'],
  ['$H/real ws-evil/x', '$H/real ws-evil/x'],
  ['~/.ssh/id', '$H/.ssh/id'],
  ['/etc/passwd', '/etc/passwd'],
  ['//etc/passwd', '//etc/passwd'],
  ['/', '/'],
  ['file://elsewhere/x', 'file://elsewhere/x'],
  ['file:///%00', 'file:///%00'],
])('the path %s is %s', (given, wanted) => {
  const place = (it: string) => it.replace('$W', workspace).replace('$H', home);
  expect(toRelative({ workspace, home })(place(given))).toBe(place(wanted));
});

test('each tool, under each name, takes an absolute path and judges the relative one', () => {
  let paths = 0;
  for (const [name, named] of builtinToolset()) {
    for (const { input } of named.tool.examples) {
      const absolute = JSON.parse(
        JSON.stringify(input, (key, it: unknown) =>
          /^(path|paths|sourcePath|oldPath|cwd|manifest)$/.test(key) && it === 'notes.txt' ? join(workspace, it) : it,
        ),
      ) as Record<string, unknown>;
      if (name !== named.tool.name || JSON.stringify(absolute) === JSON.stringify(input)) continue;
      paths += 1;
      const parsed = parseInput(named, absolute, { workspace, home });
      expect(named.tool.effects(parsed as never)).toEqual(
        named.tool.effects(parseInput(named, input, { workspace, home }) as never),
      );
    }
  }
  expect(paths).toBeGreaterThan(10);
});

test('an absolute glob matches at its own place only', () => {
  const named = builtinToolset().get('glob');
  const patterns = ['a.txt', 'sub/**/*.ts'].map(
    (it) => named && parseInput(named, { pattern: join(workspace, it) }, { workspace, home }),
  );
  expect(patterns).toMatchObject([{ pattern: './a.txt' }, { pattern: './sub/**/*.ts' }]);
});
