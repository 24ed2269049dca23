import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { isSystemPath, toTarget } from '../../../src/policy/target.ts';

const place = { workspace: '/ws', cwd: '/ws/src', home: '/home/person' };

test.each([
  ['a.ts', 'src/a.ts'],
  ['./a.ts', 'src/a.ts'],
  ['../a.ts', 'a.ts'],
  ['..', '.'],
  ['/ws', '.'],
  ['/ws/', '.'],
  ['/ws//a/./b/', 'a/b'],
  ['../../etc/passwd', '/etc/passwd'],
  ['/ws-evil/a', '/ws-evil/a'],
  ['/ws/../etc', '/etc'],
  ['///etc//passwd', '/etc/passwd'],
  ['~', '/home/person'],
  ['~/.ssh/id', '/home/person/.ssh/id'],
  ['~/../../ws/a', 'a'],
  ['~other/a', 'src/~other/a'],
  ['..a', 'src/..a'],
  ['', 'src'],
])('%s written in src is %s', (path, target) => {
  expect(toTarget(path, place)).toBe(target);
});

test('without a home `~` is a name', () => {
  expect(toTarget('~/a', { workspace: '/ws', cwd: '/ws' })).toBe('~/a');
});

test('a home inside the workspace gives relative targets', () => {
  expect(toTarget('~/a', { workspace: '/ws', cwd: '/ws', home: '/ws/home' })).toBe('home/a');
});

test('a target brought to its form once more stays as it is', () => {
  const path = fc
    .array(fc.constantFrom('a', '..', '.', '', '~', 'ws', '.env'), { maxLength: 6 })
    .map((it) => it.join('/'));
  fc.assert(
    fc.property(path, (written) => {
      const target = toTarget(written, { workspace: '/ws', cwd: '/ws/a' });
      expect(toTarget(target, { workspace: '/ws', cwd: '/ws' })).toBe(target);
    }),
  );
});

describe('the system', () => {
  test.each([
    ['/usr/bin/ls', true],
    ['/bin/ls', true],
    ['/usr/local/bin/x', true],
    ['/usrx/ls', false],
    ['/opt/x', false],
    ['/usr/src/ws/ls', false],
    ['/usr/../home/x', false],
  ])('%s belongs to it: %s', (path, expected) => {
    expect(isSystemPath(path, '/usr/src/ws')).toBe(expected);
  });
});
