/** Says of workspaces that are not wholly followed. */

export interface UnfollowedWorkspace {
  readonly workspace: string;
  readonly why: string;
}

const WHY: Readonly<Record<string, string>> = {
  path: 'it has paths of 4096 bytes and more',
  folders:
    'it has more folders than may be followed (limits.watchedDirectoriesMax, half of fs.inotify.max_user_watches)',
  watches: 'the system has no watches left (fs.inotify.max_user_watches)',
  ended: 'its follower ended; the daemon starts another one within a minute',
  shared: 'it lies on a file system that other machines change, of which the kernel reports nothing',
  deaths: 'two daemons died while they read it; the next start of a daemon tries again',
};

export const describeUnfollowed = ({ workspace, why }: UnfollowedWorkspace): string =>
  `${workspace} is not wholly followed: ${WHY[why] ?? why}. What commands change there can't be undone.`;
