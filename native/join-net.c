/*
 * join-net PID PROGRAM [ARGUMENT ...]
 *
 * Enters the network namespace of process PID, and becomes PROGRAM, which keeps its own files and processes. The kernel
 * asks for rights in the user namespace that owns the network. bubblewrap makes another one below that for the command,
 * so no process is left in the owner for nsenter to name; the network itself tells its owner.
 */
#include <fcntl.h>
#include <linux/nsfs.h>
#include <linux/sched.h>

#include "kernel.h"

#define PATH_BYTES 64

/* Writes `text` to `to`, and gives where it ends; `end` is behind the last byte of `to`. */
static char *append(char *to, const char *end, const char *text) {
  while (*text && to < end - 1) *to++ = *text++;
  *to = 0;
  return to;
}

static long network_of(const char *pid) {
  char path[PATH_BYTES];
  const char *end = path + PATH_BYTES;
  append(append(append(path, end, "/proc/"), end, pid), end, "/ns/net");
  return CALL3(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
}

static int run(int argc, char **argv, char **env) {
  if (argc < 3) return 2;
  const long network = network_of(argv[1]);
  const long owner = CALL2(SYS_ioctl, network, NS_GET_USERNS);
  if (owner < 0) return 126;
  if (CALL2(SYS_setns, owner, CLONE_NEWUSER) < 0 || CALL2(SYS_setns, network, CLONE_NEWNET) < 0) return 126;
  CALL1(SYS_close, owner);
  CALL3(SYS_execve, argv[2], argv + 2, env);
  return 127;
}
