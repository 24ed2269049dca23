/** Whether a folder lies on a file system that others change without this kernel's knowledge: of a host, or of a server. */
import { isInside } from '../../base/paths.ts';
import { type MountEntry, mountsOf } from '../../sandbox/proc.ts';

/** Types of such file systems, as the kernel names them. */
const SHARED =
  /^(?:virtiofs|9p|nfs4?|cifs|smb3|ceph|afs|vboxsf|prl_fs|fakeowner|fuse\.(?:sshfs|grpcfuse|vmhgfs-fuse|virtiofs|rclone|glusterfs))$/;

/** True if the innermost mount of the folder is of such a type; `folder` is absolute and without links. */
export function isShared(folder: string, mounts: readonly MountEntry[] = mountsOf('self') ?? []): boolean {
  let found = { point: '', type: '' };
  // A later mount covers an earlier one.
  for (const it of mounts) if (isInside(it.point, folder) && it.point.length >= found.point.length) found = it;
  return SHARED.test(found.type);
}
