/*
 * mount-links PID POINT ...
 *
 * Mounts symbolic links in the mount namespace of process PID: the one that descriptor 4 holds over the first POINT, that
 * of 5 over the second, and so on. Descriptor 3 is the user namespace that owns those mounts. The kernel mounts a link
 * only by a path that ends at the link itself, and /proc/self/fd has such paths; the sandbox's /proc does not know this
 * process, so they are looked up from ours. The caller sees in the sandbox's mounts what was mounted.
 */
#include <linux/sched.h>
#include <sys/mount.h>

#include "kernel.h"
#include "namespaces.h"

#define USER_FD 3
#define LINKS_FD 4
#define LINKS_MAX 10

static int run(int argc, char **argv, char **env) {
  (void)env;
  if (argc < 3 || argc > 2 + LINKS_MAX) return 2;
  const long proc = CALL3(SYS_openat, AT_FDCWD, "/proc", O_DIRECTORY | O_CLOEXEC);
  const long mounts = open_namespace(argv[1], "/ns/mnt");
  if (proc < 0 || mounts < 0) return 126;
  if (CALL2(SYS_setns, USER_FD, CLONE_NEWUSER) < 0 || CALL2(SYS_setns, mounts, CLONE_NEWNS) < 0) return 126;
  /* From now on absolute paths are the sandbox's. */
  if (CALL1(SYS_fchdir, proc) < 0) return 126;
  int status = 0;
  for (int at = 0; at < argc - 2; at++) {
    const int fd = LINKS_FD + at;
    char link[] = "self/fd/00";
    char *digit = link + 8;
    if (fd >= 10) *digit++ = (char)('0' + fd / 10);
    *digit++ = (char)('0' + fd % 10);
    *digit = 0;
    if (call(SYS_mount, (long)link, (long)argv[2 + at], 0, MS_BIND, 0, 0) < 0) status = 1;
  }
  return status;
}
