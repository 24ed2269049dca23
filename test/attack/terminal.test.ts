/** Attacks at a person's terminal: typing into it, and output that it would obey. */
import { spawn } from '@lydell/node-pty';
import { expect, test } from 'vitest';
import { attempts, eachIdentity, namesOf } from '../support/arena.ts';
import { ringfence } from '../support/daemon.ts';

eachIdentity({}, (arena) => {
  test('tiocsti.pl is refused before any terminal is looked at, and without the sandbox it is not', async () => {
    const program = 'tiocsti.pl';
    const tried = attempts(await arena.told({ program }));
    expect(Object.keys(tried).length).toBeGreaterThanOrEqual(6);
    expect(Object.entries(tried).filter(([, it]) => it === 'through')).toEqual([]);
    expect(namesOf(await arena.control({ program }), 'through').length).toBeGreaterThanOrEqual(3);
  });

  test('a command has no terminal of its own or of anybody', async () => {
    expect(await arena.command('tty; (exec 3<>/dev/tty) 2>&1 | grep -c "No such device"')).toBe('not a tty\n1\n');
  });

  test('leave-terminal-raw.sh gets no control sequence to the terminal of who called it, nor into the log of the daemon', async () => {
    const { socket, workspace } = arena.daemon;
    const command = 'command=bash programs/leave-terminal-raw.sh';
    const args = [
      ringfence,
      'call',
      '--no-autostart',
      '--socket',
      socket,
      '--workspace',
      workspace,
      'terminal_execute',
      command,
    ];
    const terminal = spawn(process.execPath, args, { cwd: '/', env: { ...process.env, NO_COLOR: '1' } });
    let shown = '';
    terminal.onData((it) => (shown += it));
    await new Promise<void>((resolve) => terminal.onExit(() => resolve()));
    expect(shown).toContain('safe');
    expect(shown.replaceAll('\r\n', '\n')).not.toMatch(CONTROLS);
    expect(arena.daemon.log()).not.toMatch(CONTROLS);
    expect(await arena.control({ program: 'leave-terminal-raw.sh' })).toMatch(CONTROLS);
  });
});

/** Control characters but tab and line feed. */
const CONTROLS = /(?![\n\t])\p{Cc}/u;
