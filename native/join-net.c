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
#include "namespaces.h"

static int run(int argc, char **argv, char **env) {
  if (argc < 3) return 2;
  const long network = open_namespace(argv[1], "/ns/net");
  const long owner = CALL2(SYS_ioctl, network, NS_GET_USERNS);
  if (owner < 0) return 126;
  if (CALL2(SYS_setns, owner, CLONE_NEWUSER) < 0 || CALL2(SYS_setns, network, CLONE_NEWNET) < 0) return 126;
  CALL1(SYS_close, owner);
  CALL3(SYS_execve, argv[2], argv + 2, env);
  return 127;
}
