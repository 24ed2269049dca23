/** Inspects control groups of this machine from outside. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseOwnGroups } from '../../src/sandbox/cgroup/cgroup.ts';
import { foldersOf } from '../../src/sandbox/cgroup/files.ts';

/** Folders of a daemon's groups. */
export function groupsOf(pid: number): string[] {
  const own = parseOwnGroups(readFileSync(`/proc/${pid}/cgroup`, 'utf8'), readFileSync('/proc/self/mountinfo', 'utf8'));
  const parents = [own.v1, own.v2].flatMap((it) => (it ? foldersOf(it) : [])).filter((it) => existsSync(it));
  return parents.flatMap((parent) =>
    readdirSync(parent)
      .filter((it) => it.startsWith('ringfence-') && it.split('-')[2] === `${pid}`)
      .map((it) => join(parent, it)),
  );
}
