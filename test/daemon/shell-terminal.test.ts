/** `ringfence-sh` as a shell at a terminal, and over a pipe that a program keeps open. */
import { spawn } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { spawn as spawnPty } from '@lydell/node-pty';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type OpenDaemon, openDaemon, processesWith, repository, until } from '../support/daemon.ts';

const program = join(repository, 'bin/ringfence-sh');
let daemon: OpenDaemon;
beforeAll(async () => {
  daemon = await openDaemon();
  mkdirSync(join(daemon.workspace, 'sub'));
});
afterAll(() => daemon[Symbol.asyncDispose]());

const environment = () => ({
  PATH: process.env.PATH ?? '',
  HOME: '/nonexistent',
  TERM: 'xterm',
  RINGFENCE_STATE: daemon.stateDir,
  RINGFENCE_SOCKET: daemon.socket,
});

/** A shell at a terminal: `type` waits until the shell has said what is expected. */
function atTerminal() {
  const pty = spawnPty(program, [], { cwd: daemon.workspace, env: environment(), cols: 200 });
  let said = '';
  pty.onData((it) => (said += it));
  const ended = new Promise<number>((resolve) => pty.onExit(({ exitCode }) => resolve(exitCode)));
  const expects = (text: string) => until(() => said.includes(text));
  return {
    ended,
    async type(text: string, expected: string) {
      said = '';
      pty.write(text);
      await expects(expected);
      return said;
    },
    expects,
  };
}

describe('at a terminal', () => {
  test('folder and exported variables stay from one command to the next, and Ctrl-D ends the shell', async () => {
    const shell = atTerminal();
    await shell.expects('ringfence:/$ ');
    await shell.type('cd sub\r', 'ringfence:/sub$ ');
    expect(await shell.type('export A=five; B=lost\r', 'ringfence:/sub$ ')).not.toContain('ringfence-');
    expect(await shell.type('echo "<$A/$B>"; basename "$PWD"\r', 'sub$ ')).toMatch(/<five\/>\s+sub/);
    await using client = await daemon.connect({ role: 'operator' });
    const record = JSON.stringify(await client.request('audit.query', { tool: 'terminal_execute', limit: 1 }));
    // What the sandbox has set is not handed on as if the agent had exported it.
    expect(record).not.toContain('GIT_CONFIG');
    await shell.type('false\r', 'sub$ ');
    expect(await shell.type('echo "<$?>"\r', 'sub$ ')).toContain('<1>');
    await shell.type('cd /usr\r', 'is outside of the workspace');
    await shell.expects('ringfence:/sub$ ');
    await shell.type('\u0004', 'exit');
    expect(await shell.ended).toBe(0);
  });

  test('an incomplete line continues on the next one, and a paste is several commands', async () => {
    const shell = atTerminal();
    await shell.expects('$ ');
    await shell.type('for i in 1 2; do\r', '> ');
    expect(await shell.type('echo "<$i>"; done\r', 'ringfence:/$ ')).toMatch(/<1>\s+<2>/);
    expect(await shell.type('echo "<a>"\recho "<b>"\r', '<b>\r\n')).toMatch(/<a>\s/);
    await shell.expects('ringfence:/$ ');
    await shell.type('exit 7\r', 'exit 7');
    expect(await shell.ended).toBe(7);
  });

  test('Ctrl-C ends the command and not the shell, and a line that is being typed', async () => {
    const shell = atTerminal();
    await shell.expects('$ ');
    await shell.type('echo began; : marker-at-a-terminal; sleep 600\r', 'began\r\n');
    await shell.type('\u0003', 'ringfence:/$ ');
    await until(() => processesWith('marker-at-a-terminal; sleep').length === 0);
    expect(await shell.type('echo "<$?>"\r', 'ringfence:/$ ')).toContain('<130>');
    await shell.type('typed in vain', 'vain');
    await shell.type('\u0003', 'ringfence:/$ ');
    expect(await shell.type('echo next\r', 'ringfence:/$ ')).not.toContain('vain');
    await shell.type('\u0004', 'exit');
    await shell.ended;
  });
});

describe('a program that writes its commands one by one', () => {
  const begin = () => {
    const child = spawn(program, { cwd: daemon.workspace, env: environment() });
    let text = '';
    child.stdout.on('data', (piece: Buffer) => (text += piece.toString()));
    const ended = new Promise<number | null>((resolve) => child.once('close', resolve));
    const ask = async (command: string, answer: string) => {
      child.stdin.write(command);
      await until(() => text.includes(answer));
      return text;
    };
    return { child, ended, ask, said: () => text };
  };

  test('gets the output of each before it writes the next, with folder and variables kept', async () => {
    const { child, ended, ask } = begin();
    await ask('echo first\n', 'first\n');
    await ask('cd sub && export KEPT="a b\nc"\necho "in ${PWD##*/}: $KEPT"\n', 'in sub: a b\nc\n');
    await ask('cat <<X\nhere\nX\n', 'here\n');
    await ask('unset KEPT; export LATE=1\necho "[$KEPT$LATE]"\n', '[1]\n');
    await ask(
      'for i in {1..99}; do export "V$i=$i"; done; export LONG=$(seq 20000)\necho "still here"\n',
      'still here\n',
    );
    expect(await ask('printf without-end\necho; echo "code $?"\n', 'code 0\n')).not.toContain('ringfence');
    child.stdin.end('exit 9\necho never\n');
    expect(await ended).toBe(9);
  });

  test('ends with the code of its last command where the pipe ends, an unfinished one included', async () => {
    const { child, ended, ask } = begin();
    await ask('echo begun\n', 'begun\n');
    child.stdin.end('(exit 3)');
    expect(await ended).toBe(3);
  });

  test('a script that comes in pieces is one script, whose functions and variables stay', async () => {
    const { child, ended, said } = begin();
    child.stdin.write('say() { echo "said $1 $X"\n');
    await new Promise((resolve) => setTimeout(resolve, 600)); // Longer than a program that waits is silent.
    child.stdin.end('}\nX=5\nsay hi\n');
    expect(await ended).toBe(0);
    expect(said()).toBe('said hi 5\n');
  });
});
