/** terminal_script, and the promises of terminal_execute about input, environment, signals and progress. */
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { findProgram } from '../../src/sandbox/find-program.ts';
import { dataOf, type OpenDaemon, openDaemon } from '../support/daemon.ts';

let daemon: OpenDaemon;
let client: Client;
/** Not below /tmp: each sandbox has its own /tmp. */
const toolchain = mkdtempSync(join(process.getuid?.() === 0 ? '/opt' : homedir(), 'ringfence-toolchain-'));
beforeAll(async () => {
  mkdirSync(join(toolchain, 'bin'));
  writeFileSync(join(toolchain, 'bin/our-tool'), '#!/bin/sh\necho tool-ran\n', { mode: 0o755 });
  daemon = await openDaemon({
    config: { toolchains: [toolchain] },
    env: { TZ: 'Asia/Tokyo', LC_TIME: 'C', SECRET_TOKEN: 'hidden', LD_PRELOAD: '' },
  });
  client = await daemon.connect();
});
afterAll(async () => {
  await client[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
  rmSync(toolchain, { recursive: true });
});
const run = (command: string, input: object = {}) => dataOf(client.call('terminal_execute', { command, ...input }));
const script = (input: object) => client.call('terminal_script', input as never);

describe('terminal_script', () => {
  test('gives arguments as they are, whatever they hold', async () => {
    const args = ['', 'a b', '$(touch pwned)', "'; touch pwned; '", '--', '-c', '\\', 'ä\n'];
    const data = await dataOf(script({ script: 'printf "%s|" "$#" "$@"', args }));
    expect(data.stdout).toBe(`8|${args.join('|')}|`);
    expect(existsSync(join(daemon.workspace, 'pwned'))).toBe(false);
  });

  test('runs bash as bash, sh without what only bash has, and lines keep their numbers', async () => {
    expect(await dataOf(script({ script: 'a=(1 2)\necho ${#a[@]} ${POSIXLY_CORRECT-no}' }))).toMatchObject({
      stdout: '2 no\n',
    });
    expect(await dataOf(script({ script: 'echo $0; set -o | grep posix', shell: 'sh' }))).toMatchObject({
      stdout: expect.stringMatching(/^sh\nposix\s+on\n$/),
    });
    expect((await dataOf(script({ script: 'true\nno-such-command || true' }))).stderr).toContain(
      'line 2: no-such-command',
    );
  });

  test.each([
    ['zsh', 'zsh'],
    ['pwsh', 'pwsh'],
    ['powershell', 'pwsh'],
  ])('says clearly that there is no %s', async (shell, program) => {
    if (findProgram(program) !== undefined) return;
    expect(await script({ script: 'true', shell })).toMatchObject({
      error: { code: 'UNSUPPORTED', message: `${program} is not installed on this machine` },
    });
  });

  test('terminal_script is held to the limits of a command', async () => {
    expect((await dataOf(script({ script: 'ulimit -H -f; ulimit -H -t' }))).stdout).toBe('1048576\n122\n');
  });

  test('a script is judged by the commands in it, as a command line is; a zsh script counts as unknown', async () => {
    const policy = `
tiers:
  execute: { decision: deny }
rules:
  - { id: echo, match: { command: [echo] }, decision: allow, reason: r }
`;
    await using strict = await openDaemon({ policy });
    await using its = await strict.connect();
    const call = (input: object) => its.call('terminal_script', input as never);
    expect(await call({ script: 'echo a\necho b' })).toMatchObject({ data: { stdout: 'a\nb\n' } });
    expect(await call({ script: 'echo "$1"', shell: 'sh', args: ['x'] })).toMatchObject({ success: true });
    for (const input of [
      { script: 'echo a\ntouch b' },
      { script: '$1', args: ['touch'] },
      { script: 'echo a', shell: 'zsh' },
      { script: 'echo a', shell: 'pwsh' },
      { script: '((touch b))', shell: 'sh' },
    ]) {
      const result = await call(input);
      // `((…))` runs no command in bash, the shell used here.
      if (input.script.startsWith('((')) expect(existsSync(join(strict.workspace, 'b'))).toBe(false);
      else expect(result, input.script).toMatchObject({ error: { code: 'POLICY_DENIED' } });
    }
  });
});

describe('terminal_execute', () => {
  test('a command that reads gets the end of its input at once, and finds no terminal to ask', async () => {
    expect(await run('cat; echo "rc $?"')).toMatchObject({ stdout: 'rc 0\n' });
    const asked = await run(
      'read -r x </dev/tty; echo "rc $?"; python3 -c "import getpass; getpass.getpass()" 2>&1 | tail -1; stty -a',
    );
    expect(asked.stdout).toMatch(/^rc 1\n/);
    expect(asked.stderr).toContain('/dev/tty');
    expect(asked.durationMs).toBeLessThan(15_000);
    expect(asked.stdout).toMatch(/EOFError/);
    expect(asked.exitCode).not.toBe(0);
  });

  test('a command that was given input reads it to its end', async () => {
    expect(await run('cat; cat', { stdin: 'ä\n' })).toMatchObject({ stdout: 'ä\n', exitCode: 0 });
  });

  test('a command has the time zone and language of the person, and no other variable of theirs', async () => {
    const { stdout } = await run('env | sort; date -d @0 +%H');
    expect(stdout).toContain('\nTZ=Asia/Tokyo\n');
    expect(stdout).toContain('\nLC_TIME=C\n');
    expect(stdout).toMatch(/\n09\n$/);
    expect(stdout).not.toContain('SECRET_TOKEN');
    expect(stdout).toContain('HOME=/tmp\n');
  });

  test('finds what a toolchain holds, and can not change it', async () => {
    expect(await run('our-tool')).toMatchObject({ stdout: 'tool-ran\n' });
    expect((await run(`echo x > ${toolchain}/bin/our-tool`)).stderr).toContain('Read-only file system');
  });

  test('tells which signal ended it', async () => {
    for (const signal of ['TERM', 'SEGV', 'PIPE'])
      expect(await run(`kill -${signal} $$`)).toMatchObject({ signal: `SIG${signal}`, timedOut: false });
  });
});

test('a toolchain that would show commands more than programs keeps the daemon from starting', async () => {
  await expect(openDaemon({ config: { toolchains: ['/etc'] } })).rejects.toThrow(/toolchain \/etc lies in \/etc/);
});
