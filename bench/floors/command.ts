// The cost of a command without Ringfence: a bare spawn, and bubblewrap with the same mounts as our commands, but
// without seccomp, shell, limits or daemon.
import { spawn } from 'node:child_process';
import { commandProfile, toBwrapArgs } from '../../src/sandbox/bubblewrap.ts';
import { findProgram } from '../../src/sandbox/find-program.ts';

function run(command: string, args: readonly string[]): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'], env: { PATH: '/usr/bin:/bin' } });
    child.stdout.resume();
    child.stderr.resume();
    child.once('error', reject);
    child.once('close', (code) => (code === 0 ? resolve() : reject(new Error(`${command}: exit code ${code}`))));
  });
}

export function commandFloor(workspace: string): { bare(): Promise<void>; bubblewrap(): Promise<void> } {
  const shownId = process.getuid?.() === 0 ? { shownId: 1000 } : {};
  const { seccompFd: _, ...profile } = commandProfile({
    runtime: { etc: '/etc', needed: [], guarded: [] },
    workspace,
    tmpBytes: 2 ** 28,
    ...shownId,
  });
  const args = [...toBwrapArgs(profile), '--chdir', workspace, '--', '/bin/true'];
  const bwrap = findProgram('bwrap') ?? 'bwrap';
  return { bare: () => run('/bin/true', []), bubblewrap: () => run(bwrap, args) };
}
