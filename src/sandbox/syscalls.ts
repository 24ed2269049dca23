/** Numbers of system calls for the two architectures that Ringfence runs on. A test compares them with the kernel's headers. */

/** Architectures as in `process.arch`. */
export type Arch = 'x64' | 'arm64';

export const isSupported = (arch: string): arch is Arch => arch === 'x64' || arch === 'arm64';

/** Number on x64, then on arm64; null if the architecture has no such call. arm64 lacks calls that a newer call replaces. */
export const CALLS = {
  read: [0, 63],
  open: [2, null],
  poll: [7, null],
  ioctl: [16, 29],
  readv: [19, 65],
  select: [23, null],
  nanosleep: [35, 101],
  socket: [41, 198],
  socketpair: [53, 199],
  clone: [56, 220],
  fcntl: [72, 25],
  creat: [85, null],
  chmod: [90, null],
  fchmod: [91, 52],
  ptrace: [101, 117],
  syslog: [103, 116],
  mknod: [133, null],
  personality: [135, 92],
  vhangup: [153, 58],
  pivot_root: [155, 41],
  adjtimex: [159, 171],
  chroot: [161, 51],
  acct: [163, 89],
  settimeofday: [164, 170],
  mount: [165, 40],
  umount2: [166, 39],
  swapon: [167, 224],
  swapoff: [168, 225],
  reboot: [169, 142],
  sethostname: [170, 161],
  setdomainname: [171, 162],
  iopl: [172, null],
  ioperm: [173, null],
  init_module: [175, 105],
  delete_module: [176, 106],
  quotactl: [179, 60],
  nfsservctl: [180, 42],
  lookup_dcookie: [212, 18],
  clock_settime: [227, 112],
  epoll_wait: [232, null],
  kexec_load: [246, 104],
  add_key: [248, 217],
  request_key: [249, 218],
  keyctl: [250, 219],
  openat: [257, 56],
  mknodat: [259, 33],
  fchmodat: [268, 53],
  pselect6: [270, 72],
  ppoll: [271, 73],
  unshare: [272, 97],
  epoll_pwait: [281, 22],
  fallocate: [285, 47],
  perf_event_open: [298, 241],
  name_to_handle_at: [303, 264],
  open_by_handle_at: [304, 265],
  clock_adjtime: [305, 266],
  setns: [308, 268],
  process_vm_readv: [310, 270],
  process_vm_writev: [311, 271],
  kcmp: [312, 272],
  finit_module: [313, 273],
  memfd_create: [319, 279],
  kexec_file_load: [320, 294],
  bpf: [321, 280],
  userfaultfd: [323, 282],
  io_uring_setup: [425, 425],
  io_uring_enter: [426, 426],
  io_uring_register: [427, 427],
  open_tree: [428, 428],
  move_mount: [429, 429],
  fsopen: [430, 430],
  fsconfig: [431, 431],
  fsmount: [432, 432],
  fspick: [433, 433],
  clone3: [435, 435],
  openat2: [437, 437],
  pidfd_getfd: [438, 438],
  epoll_pwait2: [441, 441],
  mount_setattr: [442, 442],
  quotactl_fd: [443, 443],
  memfd_secret: [447, 447],
  fchmodat2: [452, 452],
  open_tree_attr: [467, 467],
} as const satisfies Record<string, readonly [number, number | null]>;

export type CallName = keyof typeof CALLS;

/** Number of a call; undefined if the architecture has no such call. */
export const callNumber = (name: CallName, arch: Arch): number | undefined =>
  CALLS[name][arch === 'x64' ? 0 : 1] ?? undefined;

/** Numbers of those calls that the architecture has. */
export const callNumbers = (names: readonly CallName[], arch: Arch): number[] =>
  names.flatMap((it) => callNumber(it, arch) ?? []);
