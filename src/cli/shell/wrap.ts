/** `ringfence wrap -- AGENT`: starts an agent whose shells run in the sandbox. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { constants, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { entry } from '../../runtime.ts';
import { type CliCaller, connect } from '../connect.ts';
import { CliError, EXIT, harmless, say } from '../output.ts';
import { WRAP } from './shell.ts';

/** Names under which agents start shells. */
const SHELLS = ['bash', 'sh', 'zsh', 'dash'] as const;

/** Runs the agent to its end. Returns its exit code. */
export async function wrap([program, ...words]: readonly string[], caller: CliCaller): Promise<number> {
  if (program === undefined) throw new CliError(EXIT.USAGE, 'name the agent to start: ringfence wrap -- AGENT');
  const root = resolve(caller.cwd, caller.flags.workspace ?? caller.cwd);
  // Starts a daemon where none runs, and says so before the agent has the terminal.
  await (await connect({ ...caller, flags: { ...caller.flags, workspace: root } }))[Symbol.asyncDispose]();
  const folder = mkdtempSync(join(tmpdir(), 'ringfence-wrap-'));
  try {
    return await run(program, words, environmentOf(folder, root, caller));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Makes the shells in a folder that only this user can read, and gives the environment in which they are found first. */
function environmentOf(folder: string, root: string, { env, flags }: CliCaller): NodeJS.ProcessEnv {
  const bin = join(folder, 'bin');
  mkdirSync(bin);
  const options = Object.entries({ socket: flags.socket, state: flags.state, mode: flags.mode })
    .flatMap(([name, value]) => (value === undefined ? [] : [`--${name}`, value]))
    .concat(['--workspace', root]);
  const line = [process.execPath, entry('cli'), 'sh', ...options].map(quoted).join(' ');
  for (const name of SHELLS) {
    writeFileSync(join(bin, name), `#!/bin/sh\nexec ${line} "$@"\n`);
    chmodSync(join(bin, name), 0o755);
  }
  const wrapped = {
    ...env,
    PATH: `${bin}:${env.PATH ?? '/usr/bin:/bin'}`,
    SHELL: join(bin, 'bash'),
    RINGFENCE_SESSION: env.RINGFENCE_SESSION || `wrap-${process.pid}`,
    [WRAP.root]: root,
    [WRAP.environment]: join(folder, 'environment.json'),
  };
  writeFileSync(wrapped[WRAP.environment], JSON.stringify(wrapped), { mode: 0o600 });
  return wrapped;
}

const quoted = (word: string): string => `'${word.replaceAll("'", String.raw`'\''`)}'`;

async function run(program: string, words: readonly string[], env: NodeJS.ProcessEnv): Promise<number> {
  // A terminal sends SIGINT to both; the agent decides what it means.
  process.on('SIGINT', () => {});
  try {
    const child = spawn(program, words, { stdio: 'inherit', env });
    for (const signal of ['SIGTERM', 'SIGHUP'] as const) process.on(signal, () => child.kill(signal));
    const [code, signal] = (await once(child, 'exit')) as [number | null, NodeJS.Signals | null];
    if (signal !== null) say(`${harmless(program)} was ended by ${signal}`);
    return code ?? 128 + constants.signals[signal ?? 'SIGTERM'];
  } catch (error) {
    throw new CliError(127, `${harmless(program)} can't be started: ${(error as Error).message}`);
  }
}
