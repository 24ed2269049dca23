/** Whether a folder lies on a file system that others change without this kernel's knowledge: of a host, or of a server. */
import { readFileSync } from 'node:fs';
import { isInside } from '../../base/paths.ts';
import { unescaped } from '../../sandbox/cgroup/cgroup.ts';

/** Types of such file systems, as the kernel names them. */
const SHARED =
  /^(?:virtiofs|9p|nfs4?|cifs|smb3|ceph|afs|vboxsf|prl_fs|fakeowner|fuse\.(?:sshfs|grpcfuse|vmhgfs-fuse|virtiofs|rclone|glusterfs))$/;

/** True if the innermost mount of the folder is of such a type; `folder` is absolute and without links. */
export function isShared(folder: string, mountinfo: string = readFileSync('/proc/self/mountinfo', 'utf8')): boolean {
  let found = { path: '', type: '' };
  for (const line of mountinfo.split('\n')) {
    // For example `36 35 98:0 / /mnt/a\040b rw,noatime master:1 - virtiofs mount0 rw`; a later mount covers an earlier one.
    const [, written = '', type = ''] = /^\d+ \d+ \S+ \S+ (\S+) .*? - (\S+) /.exec(line) ?? [];
    const path = unescaped(written);
    if (path !== '' && isInside(path, folder) && path.length >= found.path.length) found = { path, type };
  }
  return SHARED.test(found.type);
}
