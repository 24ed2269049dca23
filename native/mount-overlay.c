/*
 * mount-overlay WORKSPACE OPTIONS SCRATCH PROGRAM [ARGUMENT ...]
 *
 * Becomes PROGRAM in a user and a mount namespace of its own, in which an overlay with OPTIONS lies over WORKSPACE; `.` in
 * the options is the workspace as it was. PROGRAM has no capability: the kernel takes them at its start from all users
 * but root, and bubblewrap takes them from root. If the kernel refuses the overlay, prints "no overlay: " and the number
 * of its error.
 * SCRATCH is the folder that the kernel makes for the overlay. A volatile one leaves folders in it that nobody may enter:
 * their owner gets the right to remove them.
 */
#include <linux/sched.h>
#include <sys/mount.h>

#include "kernel.h"
#include "namespaces.h"

static int refused(long error) {
  char text[] = "no overlay: 000\n";
  const long number = -error;
  text[12] = (char)('0' + number / 100 % 10);
  text[13] = (char)('0' + number / 10 % 10);
  text[14] = (char)('0' + number % 10);
  CALL3(SYS_write, 2, text, sizeof text - 1);
  return 1;
}

static int run(int argc, char **argv, char **env) {
  if (argc < 5) return 2;
  const char *workspace = argv[1];
  const long uid = CALL1(SYS_geteuid, 0), gid = CALL1(SYS_getegid, 0);
  long error = CALL1(SYS_unshare, CLONE_NEWUSER | CLONE_NEWNS);
  if (error < 0) return refused(error);
  const long groups = CALL3(SYS_openat, AT_FDCWD, "/proc/self/setgroups", O_WRONLY | O_CLOEXEC);
  CALL3(SYS_write, groups, "deny", 4);
  CALL1(SYS_close, groups);
  if (!write_map("/proc/self/uid_map", uid) || !write_map("/proc/self/gid_map", gid)) return refused(-1);
  error = call(SYS_mount, (long)"none", (long)"/", 0, MS_REC | MS_PRIVATE, 0, 0);
  if (error == 0) error = CALL1(SYS_chdir, workspace);
  if (error == 0) error = call(SYS_mount, (long)"ringfence", (long)workspace, (long)"overlay", 0, (long)argv[2], 0);
  if (error == 0) error = CALL3(SYS_fchmodat, AT_FDCWD, argv[3], 0700);
  if (error == 0) error = CALL1(SYS_chdir, argv[3]);
  if (error == 0) error = CALL3(SYS_fchmodat, AT_FDCWD, "incompat", 0700);
  if (error == 0) error = CALL3(SYS_fchmodat, AT_FDCWD, "incompat/volatile", 0700);
  if (error == 0) error = CALL1(SYS_chdir, "/");
  if (error < 0) return refused(error);
  CALL3(SYS_execve, argv[4], argv + 4, env);
  return 127;
}
