/** Removes folders in a process of its own: they may hold a million files, and folders that nobody may enter. */
import type { ChildProcess } from 'node:child_process';
import type { Powers } from './powers.ts';

const SCRIPT = 'chmod -R u+rwX -- "$@" 2>/dev/null; exec rm -rf --one-file-system -- "$@"';

/** Starts the removal; the next start of the caller removes what is left. `what` names the folders for the log. */
export function removeTrees(
  paths: readonly string[],
  what: string,
  { spawn, log }: Pick<Powers, 'spawn' | 'log'>,
): ChildProcess {
  const child = spawn('/bin/sh', ['-c', SCRIPT, 'sh', ...paths], { stdio: 'ignore' });
  return child.once('error', (error) => log.warn({ error }, `${what} could not be removed`));
}
