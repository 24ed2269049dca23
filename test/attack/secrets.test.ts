/** Attempts to read the daemon's environment, tokens, policy and record: through /proc, through links, by searching everywhere. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { shownFolders } from '../../src/services/toolchains/installed.ts';
import { eachIdentity } from '../support/arena.ts';

const CANARY = 'canary-4f1c-of-this-test';

eachIdentity({ env: { CANARY_OF_A_TEST: CANARY } }, (arena) => {
  const secrets = () => {
    const { stateDir, token } = arena.daemon;
    return [CANARY, token('agent'), token('operator'), readFileSync(join(stateDir, 'policy.yaml'), 'utf8')];
  };
  const shown = (output: string) => secrets().filter((it) => output.includes(it));

  test('steal-environ.sh sees no environment and no arguments of the daemon, and without the sandbox it does', async () => {
    const program = 'steal-environ.sh';
    const output = await arena.told({ program });
    expect(shown(output)).toEqual([]);
    // Each command's PATH has the folder of toolchains.
    const { stateDir } = arena.daemon;
    expect(shownFolders(stateDir).reduce((text, it) => text.replaceAll(it, ''), output)).not.toContain(stateDir);
    const control = await arena.control({ program });
    expect(control).toContain(arena.daemon.stateDir);
    // Another user can't read the environment of root's process.
    if (arena.identity.isRoot || arena.identity.daemon) expect(control).toContain(CANARY);
  });

  test('read-state.sh finds nothing of the state directory, not even a name, and without the sandbox it does', async () => {
    const attack = { program: 'read-state.sh', args: [arena.daemon.stateDir] };
    const output = await arena.told(attack);
    expect(output).toMatch(/^looked$/m);
    expect(shown(output)).toEqual([]);
    expect(output).not.toMatch(/token$|audit\.db/m);
    if (arena.identity.isRoot || arena.identity.daemon)
      expect(shown(await arena.control(attack))).toEqual(expect.arrayContaining(secrets().slice(1)));
  });

  test('write-outside.sh changes nothing in the state directory', async () => {
    const before = readFileSync(join(arena.daemon.stateDir, 'policy.yaml'));
    await arena.told({ program: 'write-outside.sh', args: [arena.daemon.stateDir] });
    const commands = ['echo x >>"$0/policy.yaml"', 'rm -rf "$0"', 'mv "$0" moved', ': >"$0/audit.db"'];
    for (const it of commands) await arena.command(`bash -c '${it}' '${arena.daemon.stateDir}'; true`);
    expect(readFileSync(join(arena.daemon.stateDir, 'policy.yaml'))).toEqual(before);
    expect(existsSync(join(arena.daemon.stateDir, 'audit.db'))).toBe(true);
    expect(await arena.command('echo next')).toBe('next\n');
  });

  test('core-dump.pl leaves no dump, and may not raise the limit on them', async () => {
    const program = 'core-dump.pl';
    expect(await arena.run({ program })).toMatchObject({ success: true, data: { stdout: '0\n' } });
    const dumps = await arena.command('find . /tmp -name "core*" -type f -not -path "*/programs/*"');
    expect(dumps).toBe('');
  });
});
