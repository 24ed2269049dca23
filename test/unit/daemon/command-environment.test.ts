import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { toCommandEnvironment, toolchainProblem } from '../../../src/daemon/command-environment.ts';

const REST = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';
let folder: string;
beforeAll(() => {
  folder = mkdtempSync('/tmp/ringfence-env-'); // One of the tests is about /tmp itself.
  mkdirSync(join(folder, 'node/bin'), { recursive: true });
  mkdirSync(join(folder, 'plain'));
  mkdirSync(join(folder, 'home/.ssh/x'), { recursive: true });
  symlinkSync('/usr/bin', join(folder, 'link'));
});
afterAll(() => rmSync(folder, { recursive: true }));

describe('what commands get of the environment of the person', () => {
  test('commands get the language and the time zone, and no other variable or value', () => {
    const env = {
      LANG: 'de_DE.UTF-8',
      LC_TIME: 'C',
      TZ: 'Europe/Berlin',
      LC_ALL: '/tmp/evil',
      LANGUAGE: 'de:en',
      AWS_SECRET_ACCESS_KEY: 'x',
      GITHUB_TOKEN: 'y',
      LD_PRELOAD: '/x.so',
      SSH_AUTH_SOCK: '/s',
      HOME: '/root',
      TERM: 'evil',
      LC_evil: 'x',
      NODE_OPTIONS: '--x',
    };
    expect(toCommandEnvironment(env, [])).toEqual({
      LANG: 'de_DE.UTF-8',
      LC_TIME: 'C',
      TZ: 'Europe/Berlin',
      LANGUAGE: 'de:en',
      PATH: REST,
    });
    expect(toCommandEnvironment({ TZ: '../../etc/passwd', LANG: '..' }, [])).toEqual({ PATH: REST });
    expect(toCommandEnvironment({ TZ: ':/etc/passwd' }, [])).toEqual({ PATH: REST });
  });

  test('commands get the parts of PATH that a sandbox sees, in order, behind the toolchains outside PATH', () => {
    const path = `/usr/bin:${folder}/plain:/usr/local/bin:relative::/usr/bin/../../tmp:/usr/no-such:${folder}/link:/usr/bin`;
    expect(toCommandEnvironment({ PATH: path }, [join(folder, 'node'), join(folder, 'plain')]).PATH).toBe(
      `${folder}/node/bin:/usr/bin:${folder}/plain:/usr/local/bin:/usr/local/sbin:/usr/sbin:/sbin:/bin`,
    );
  });
});

test('no toolchain shows commands a home, keys, a workspace, the state of the daemon or a part of the system', () => {
  const home = join(folder, 'home');
  const places = { home, closed: [join(folder, 'plain')] };
  // Below /tmp, like all of this test.
  expect(toolchainProblem(join(folder, 'node'), places)).toMatch(/lies in \/tmp/);
  for (const [path, problem] of [
    ['/', /home directory/],
    [home, /home directory/],
    [folder, /home directory/],
    [join(home, '.ssh/x'), /\.ssh/],
    [join(folder, 'plain'), /plain/],
    ['/etc', /\/etc/],
    ['/proc/self', /\/proc/],
  ] as const)
    expect(toolchainProblem(path, places), path).toMatch(problem);
  expect(toolchainProblem('/usr/lib', places)).toBeUndefined();
});
