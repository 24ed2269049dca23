/** The command line, as a person in the workspace of a test's daemon runs it. */
import { type ChildProcess, spawn } from 'node:child_process';
import { buffer } from 'node:stream/consumers';
import { ringfence, type TestDaemon } from './daemon.ts';

export interface Run {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface RunOptions {
  readonly cwd?: string;
  /** On standard input, which is empty otherwise. */
  readonly stdin?: string;
  readonly env?: Readonly<Record<string, string>>;
}

type Place = Pick<TestDaemon, 'stateDir' | 'socket' | 'workspace'>;

/** A command line that is under way, its streams still to be read. */
export function beginCli({ stateDir, socket, workspace }: Place, args: readonly string[], options: RunOptions = {}) {
  const child = spawn(process.execPath, [ringfence, ...args], {
    cwd: options.cwd ?? workspace,
    env: {
      ...{ PATH: process.env.PATH ?? '', HOME: '/nonexistent', RINGFENCE_STATE: stateDir, RINGFENCE_SOCKET: socket },
      ...options.env,
    },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  child.stdin.on('error', () => {}); // It ended without having read it.
  child.stdin.end(options.stdin ?? '');
  return child;
}

/** Its exit code; null where a signal ended it. It may have ended already. */
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
