/**
 * How many files a program in a sandbox may have open. Descriptors that were sent over sockets and not received are counted by user, over
 * all processes, and whoever sends one is refused while the count is above its own soft limit of open files: the hard limit of sandboxes
 * stays so far below those soft limits that the person's programs can always pass descriptors.
 */
import { readdirSync, readlinkSync, statSync } from 'node:fs';
import type { Limits } from '../base/limits.ts';
import { limitOf } from './proc.ts';

/** A message that is below the limit when it is sent may hold this many (SCM_MAX_FD). */
const MESSAGE_DESCRIPTORS = 253;
/** Least limit of a sandbox: the usual soft limit of Linux is 1024, and few programs have less. */
const LEAST = 1024 - MESSAGE_DESCRIPTORS;

/** The hard limit for programs of others that run as `uid`, our user if absent. */
export function openFilesFor(uid = process.getuid?.() ?? 0, { commandOpenFilesMax }: Limits): number {
  const theirs = pidsOf(uid).map((pid) => limitOf(pid, 'Max open files').soft - MESSAGE_DESCRIPTORS);
  // If our own hard limit is lower, it can't be raised.
  const most = Math.min(commandOpenFilesMax, limitOf('self', 'Max open files').hard);
  return Math.min(most, Math.max(LEAST, Math.min(...theirs)));
}

/** The user's processes, except those in user namespaces of their own. */
function pidsOf(uid: number): string[] {
  const own = readlinkSync('/proc/self/ns/user');
  return readdirSync('/proc').filter((pid) => {
    if (!/^\d+$/.test(pid)) return false;
    try {
      return statSync(`/proc/${pid}`).uid === uid && readlinkSync(`/proc/${pid}/ns/user`) === own;
    } catch {
      return false; // ENOENT: ended; EACCES: nobody may look at it, as at gpg-agent.
    }
  });
}
