import { execFile } from 'node:child_process';
import { findProgram } from '../../sandbox/find-program.ts';

const WITHIN_MS = 5_000;
const OUTPUT_BYTES_MAX = 256 * 1024;

/** What a program of the machine prints; undefined if it is not installed, fails, takes too long or prints too much. */
export function outputOf(
  program: string,
  args: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<string | undefined> {
  const path = findProgram(program);
  const options = { env, cwd: '/', timeout: WITHIN_MS, killSignal: 'SIGKILL', maxBuffer: OUTPUT_BYTES_MAX } as const;
  return new Promise((resolve) => {
    if (path === undefined) resolve(undefined);
    else execFile(path, args, options, (error, stdout) => resolve(error ? undefined : stdout));
  });
}
