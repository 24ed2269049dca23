/** What a sandbox shows and hides, as data: mounts in order. bubblewrap.ts turns them into arguments. */
export type Mount =
  | { readonly kind: 'ro' | 'rw'; readonly path: string }
  | {
      readonly kind: 'ro-at' | 'rw-at';
      readonly path: string;
      readonly at: string;
      /** For `ro-at`: the descriptor from which a copy of the file is made, if bubblewrap's user can't reach its path. */
      readonly fd?: number;
    }
  /** Skipped if the path does not exist. */
  | { readonly kind: 'ro-try' | 'rw-try'; readonly path: string }
  /** Covers an existing path: nobody inside, its owner included, can open, change, remove or move it. */
  | {
      readonly kind: 'hidden';
      readonly type: 'file' | 'directory';
      readonly path: string;
      /** The path as bytes if it is not UTF-8: no argument can hold it, see `toArgBytes`. */
      readonly bytes?: Uint8Array | undefined;
    }
  /** Shows another file in place of an existing one, read-only; or (`own`) another folder, which may be changed. */
  | { readonly kind: 'replaced' | 'own'; readonly path: string; readonly by: string }
  /** Replaces an existing directory with one that shows only `entries`; nothing can be created or removed in it. */
  | {
      readonly kind: 'listed';
      readonly path: string;
      readonly entries: readonly string[];
      readonly isWritable: boolean;
    }
  | { readonly kind: 'tmpfs'; readonly at: string; readonly bytes: number }
  | { readonly kind: 'symlink'; readonly to: string; readonly at: string }
  /** An empty directory as a mount point for a later mount. */
  | { readonly kind: 'folder'; readonly at: string };

/** A mount over a path that exists already. */
export type CoveringMount = Extract<Mount, { readonly path: string }>;

export interface Profile {
  /** In order: a later mount covers an earlier one. */
  readonly mounts: readonly Mount[];
  /** Uid and gid shown inside; needed when the real uid is 0, which may not be mapped into a nested namespace. */
  readonly shownId?: number | undefined;
  /** Whether processes inside may start sandboxes of their own (an execute host must). */
  readonly nests: boolean;
  /** Whether the sandbox is built inside an execute host, which has already assembled its /etc. */
  readonly isNested?: boolean;
  /** Whether its system is that of an image, which the arguments leave to the command. */
  readonly isImage?: boolean | undefined;
  /** `bound`: the caller has mounted a fresh /proc of its own pid namespace, which bubblewrap can't without covering parts of it. */
  readonly proc: 'own' | 'bound';
  readonly network: 'none' | 'host';
  /** Folder with the `hosts` and `nsswitch.conf` for its /etc; if absent, the machine's nsswitch.conf and no hosts file. */
  readonly names?: string;
  /** Our own files in its /etc, in place of the machine's. */
  readonly ownFiles?: readonly OwnFile[] | undefined;
  /** Size of its /dev/shm, which takes memory; 32 MiB if absent. */
  readonly shmBytes?: number;
  /** Whether the program is the namespace's init: saves a process for programs that leave no orphans. */
  readonly asInit: boolean;
  /** Number of the inherited descriptor that holds the seccomp program; absent only in tests that show what the program prevents. */
  readonly seccompFd?: number;
}

/** A file of ours, and its path in the sandbox. */
export interface OwnFile {
  readonly path: string;
  readonly at: string;
  /** The descriptor that bubblewrap reads it from, if it runs as a user who can't enter our folder. */
  readonly fd?: number;
}

/** Path of a command's home in its sandbox; no workspace or toolchain lies there. */
export const HOME = '/run/home';

/** Whether the mount's path is not UTF-8. */
export const isNameless = (
  mount: CoveringMount,
): mount is CoveringMount & { readonly kind: 'hidden'; readonly bytes: Uint8Array } =>
  mount.kind === 'hidden' && mount.bytes !== undefined;
