/** Runs the command line like a person in the workspace of a test's daemon. */
import { type ChildProcess, spawn } from 'node:child_process';
import { buffer } from 'node:stream/consumers';
import { type OpenDaemon, ringfence } from './daemon.ts';

export interface Run {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface RunOptions {
  readonly cwd?: string;
  /** Standard input; empty by default. */
  readonly stdin?: string;
  /** Whether standard input stays open, though nothing is written to it. */
  readonly keepsInput?: boolean;
  readonly env?: Readonly<Record<string, string>>;
  /** Program and arguments that exec the command line. */
  readonly launcher?: readonly string[];
}

type Place = Pick<OpenDaemon, 'stateDir' | 'socket' | 'workspace'>;

/** Starts a command line; the caller reads its streams. */
export function beginCli({ stateDir, socket, workspace }: Place, args: readonly string[], options: RunOptions = {}) {
  const [program = '', ...words] = [...(options.launcher ?? []), process.execPath, ringfence, ...args];
  const child = spawn(program, words, {
    cwd: options.cwd ?? workspace,
    env: {
      PATH: process.env.PATH ?? '',
      HOME: '/nonexistent',
      RINGFENCE_STATE: stateDir,
      RINGFENCE_SOCKET: socket,
      ...options.env,
    },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  child.stdin.on('error', () => {}); // It ended without reading.
  if (!options.keepsInput) child.stdin.end(options.stdin ?? '');
  return child;
}

/** Resolves with the exit code, even after the end; null if a signal ended it. */
export const endOf = (child: ChildProcess): Promise<number | null> =>
  child.exitCode === null && child.signalCode === null
    ? new Promise((resolve) => child.once('exit', resolve))
    : Promise.resolve(child.exitCode);

/** Runs the command line to its end. */
export async function runCli(place: Place, args: readonly string[], options: RunOptions = {}): Promise<Run> {
  const child = beginCli(place, args, options);
  const [code, stdout, stderr] = await Promise.all([endOf(child), buffer(child.stdout), buffer(child.stderr)]);
  return { code, stdout: stdout.toString(), stderr: stderr.toString() };
}
