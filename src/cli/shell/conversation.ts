/** Reads commands one by one, from a terminal or from a program that keeps its pipe open, and runs each in a kept shell. */
import { constants } from 'node:os';
import { relative } from 'node:path';
import { createInterface } from 'node:readline';
import { harmless } from '../output.ts';
import { isIncomplete } from './command-lines.ts';
import type { KeptShell } from './kept-shell.ts';

const HISTORY_LINES = 1000;

/** Runs commands until the input ends, or `exit`. Returns the exit code of the last command, or that of `exit`. */
export const converse = (shell: KeptShell): Promise<number> =>
  process.stdin.isTTY ? atTerminal(shell) : throughPipe(shell);

const EXIT_COMMAND = /^\s*(?:exit|logout)(?:\s+(\d+))?\s*;?\s*$/;

/** The exit code if the line ends the shell. */
const exitOf = (line: string, shell: KeptShell): number | undefined => {
  const match = EXIT_COMMAND.exec(line);
  return match ? Number(match[1] ?? shell.exitCode) & 0xff : undefined;
};

async function throughPipe(shell: KeptShell): Promise<number> {
  let command = '';
  for await (const line of createInterface({ input: process.stdin, crlfDelay: Number.POSITIVE_INFINITY })) {
    command += command === '' ? line : `\n${line}`;
    if (isIncomplete(command)) continue;
    const code = exitOf(command, shell);
    if (code !== undefined) return code;
    if (command.trim() !== '') await shell.run(command);
    command = '';
  }
  if (command.trim() !== '') await shell.run(command); // Bash says what is missing.
  return shell.exitCode;
}

async function atTerminal(shell: KeptShell): Promise<number> {
  const history: string[] = [];
  const typed: string[] = [];
  let command = '';
  for (;;) {
    if (typed.length === 0) {
      const how = await readLines(command === '' ? `${shownFolder(shell)}$ ` : '> ', { history, typed });
      if (how !== 'lines') process.stderr.write(how === 'end' ? 'exit\n' : '^C\n');
      if (how === 'end') return shell.exitCode;
      if (how === 'interrupt') {
        command = '';
        shell.exitCode = 128 + constants.signals.SIGINT;
        continue;
      }
    }
    const line = typed.shift() ?? '';
    command += command === '' ? line : `\n${line}`;
    if (isIncomplete(command)) continue;
    const code = exitOf(command, shell);
    if (code !== undefined) return code;
    if (command.trim() !== '') await shell.run(command);
    command = '';
  }
}

const shownFolder = ({ root, folder }: KeptShell): string => `ringfence:/${relative(root, folder)}`;

/**
 * Reads what is typed up to Enter; a paste may bring several lines. The terminal is free again afterwards, so that Ctrl-C
 * becomes a signal while a command runs.
 */
function readLines(
  prompt: string,
  { history, typed }: { history: string[]; typed: string[] },
): Promise<'lines' | 'end' | 'interrupt'> {
  const { promise, resolve } = Promise.withResolvers<'lines' | 'end' | 'interrupt'>();
  const input = createInterface({
    input: process.stdin,
    output: process.stderr,
    terminal: true,
    history: [...history],
    historySize: HISTORY_LINES,
    prompt: harmless(prompt),
  });
  input.on('line', (line) => {
    typed.push(line);
    resolve('lines');
  });
  input.on('history', (lines: string[]) => history.splice(0, history.length, ...lines));
  input.once('SIGINT', () => resolve('interrupt'));
  input.once('close', () => resolve('end'));
  input.prompt();
  return promise.finally(() => input.close());
}
