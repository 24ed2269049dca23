/** Which file systems other machines change, by the kernel's list of mounts. */
import { expect, test } from 'vitest';
import { isShared } from '../../../src/hosts/follower/shared.ts';
import { toMountEntry } from '../../../src/sandbox/proc.ts';

const MOUNTS = `22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/root rw
40 22 0:40 / /Users/ada/shop rw,relatime shared:9 - virtiofs mount0 rw
41 22 0:41 / /mnt/c rw - 9p drvfs rw
42 22 0:42 / /home/ada/my\\040project rw master:3 - fuse.sshfs :/x rw
43 22 0:43 / /srv rw - nfs4 server:/srv rw
44 43 8:2 / /srv/local rw - xfs /dev/sdb rw
45 22 0:45 / /covered rw - virtiofs mount1 rw
46 45 8:3 / /covered rw - ext4 /dev/sdc rw
47 22 0:47 / /sealed rw - fuse.gocryptfs /x rw
`;

test.each([
  ['/Users/ada/shop/src', true],
  ['/Users/ada/shopping', false],
  ['/mnt/c/Users/ada', true],
  ['/home/ada/my project', true],
  ['/srv/data', true],
  ['/srv/local/data', false],
  ['/covered/x', false],
  ['/sealed/x', false],
  ['/home/ada', false],
])('the mount of %s is shared: %s', (folder, is) =>
  expect(isShared(folder, MOUNTS.split('\n').flatMap(toMountEntry))).toBe(is),
);

test('an ordinary folder of this machine is not shared', () => expect(isShared('/etc')).toBe(false));
