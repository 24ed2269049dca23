/*
 * Tries a sandbox from inside: makes each attempt that src/sandbox/proof/probes.ts judges, and says what came of it. The
 * kernel itself answers, so no interpreter, library or tool is needed that a machine may lack, and calls can be tried that
 * no shell can make (AF_VSOCK, ptrace, TIOCSTI).
 *
 * Input on descriptor 0: the path of a file of the daemon, the daemon's pid and a port on which it listens, each with a
 * zero byte behind it. Output on descriptor 1: a line for each attempt, its name and the result of its system call (a
 * negative one is an errno) or, after an `x`, the hexadecimal bytes that it read; then the line `end`. The program ends
 * when descriptor 0 is closed; until then the daemon can inspect the living process from outside.
 */
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <sys/socket.h>

#include "kernel.h"

#define INPUT_MAX 8192
#define FILE_MAX 8192
#define OUTPUT_MAX 65536
#define NETLINK_NETFILTER 12
#define TIOCSTI 0x5412
#define PORT_DISCARD 9
/* Lifetime of the process that should not survive: longer than the wait for it, short enough to leave nothing behind. */
#define SURVIVOR_SECONDS 4

struct output {
  unsigned long bytes;
  char text[OUTPUT_MAX];
};

static void put(struct output *output, char it) {
  if (output->bytes < OUTPUT_MAX) output->text[output->bytes++] = it;
}

static void put_text(struct output *output, const char *text) {
  while (*text) put(output, *text++);
}

static long told(struct output *output, const char *name, long result) {
  char digits[20];
  int count = 0;
  put_text(output, name);
  put_text(output, result < 0 ? " -" : " ");
  for (unsigned long left = result < 0 ? -(unsigned long)result : (unsigned long)result; left > 0 || count == 0; left /= 10)
    digits[count++] = (char)('0' + left % 10);
  while (count > 0) put(output, digits[--count]);
  put(output, '\n');
  return result;
}

static void told_bytes(struct output *output, const char *name, const char *bytes, long count) {
  put_text(output, name);
  put_text(output, " x");
  for (long at = 0; at < count; at++) {
    put(output, "0123456789abcdef"[(bytes[at] >> 4) & 15]);
    put(output, "0123456789abcdef"[bytes[at] & 15]);
  }
  put(output, '\n');
}

static long number_in(const char *digits) {
  long number = 0;
  while (*digits >= '0' && *digits <= '9') number = 10 * number + (*digits++ - '0');
  return number;
}

/* All paths here are absolute; arm64 has only the calls that take a folder. */
static long open_file(const char *path, int flags) { return CALL3(SYS_openat, AT_FDCWD, path, flags); }

static void read_file(struct output *output, const char *name, const char *path) {
  char bytes[FILE_MAX];
  const long file = open_file(path, O_RDONLY);
  if (file < 0) told(output, name, file);
  else told_bytes(output, name, bytes, CALL3(SYS_read, file, bytes, sizeof bytes));
}

static void write_system(struct output *output) {
  told(output, "write/", CALL3(SYS_faccessat, AT_FDCWD, "/", 2));
  told(output, "write/usr", CALL3(SYS_faccessat, AT_FDCWD, "/usr", 2));
  told(output, "write/etc", CALL3(SYS_faccessat, AT_FDCWD, "/etc", 2));
  told(output, "write/dev", CALL3(SYS_faccessat, AT_FDCWD, "/dev", 2));
}

struct target {
  const char *made, *connected;
  int type;
};

static void connect_to(struct output *output, struct target by, const unsigned char *to, long bytes) {
  const long made = told(output, by.made, CALL3(SYS_socket, to[0], by.type, 0));
  told(output, by.connected, CALL3(SYS_connect, made, to, bytes));
}

static void network(struct output *output, long port) {
  const unsigned char low = (unsigned char)port, high = (unsigned char)(port >> 8);
  const unsigned char loopback[16] = {AF_INET, 0, high, low, 127, 0, 0, 1};
  /* Documentation addresses (RFC 5737, 3849): a datagram socket that connects to one sends nothing, but needs a route. */
  const unsigned char out4[16] = {AF_INET, 0, 0, PORT_DISCARD, 192, 0, 2, 1};
  const unsigned char out6[28] = {AF_INET6, 0, 0, PORT_DISCARD, 0, 0, 0, 0, 0x20, 0x01, 0x0d, 0xb8};
  connect_to(output, (struct target){"loopback-socket", "loopback", SOCK_STREAM}, loopback, sizeof loopback);
  connect_to(output, (struct target){"out4-socket", "out4", SOCK_DGRAM}, out4, sizeof out4);
  connect_to(output, (struct target){"out6-socket", "out6", SOCK_DGRAM}, out6, sizeof out6);
  told(output, "vsock", CALL3(SYS_socket, AF_VSOCK, SOCK_STREAM, 0));
  told(output, "netlink", CALL3(SYS_socket, AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER));
  told(output, "unix-socket", CALL3(SYS_socket, AF_UNIX, SOCK_STREAM, 0));
}

/* False in the process that should not survive, which ends. */
static int processes(struct output *output, const char *daemon_pid) {
  char environment[64] = "/proc/";
  int at = 6;
  for (const char *it = daemon_pid; *it && at < 40; it++) environment[at++] = *it;
  for (const char *it = "/environ"; *it; it++) environment[at++] = *it;
  environment[at] = 0;
  told(output, "signal-daemon", CALL2(SYS_kill, number_in(daemon_pid), 0));
  read_file(output, "environ-1", "/proc/1/environ");
  read_file(output, "environ-daemon", environment);
  /* arm64 has no fork. */
  if (told(output, "survivor", CALL1(SYS_clone, SIGCHLD)) == 0) {
    const long time[2] = {SURVIVOR_SECONDS, 0};
    CALL1(SYS_setsid, 0);
    CALL2(SYS_nanosleep, time, 0);
    return 0;
  }
  /* Reads nothing, which the kernel allows whatever the process. */
  told(output, "ptrace", call(SYS_process_vm_readv, 1, 0, 0, 0, 0, 0));
  told(output, "tiocsti", CALL3(SYS_ioctl, 0, TIOCSTI, "x"));
  return 1;
}

static int try_all(struct output *output, const char *canary, const char *daemon_pid, const char *port) {
  char link[64];
  read_file(output, "status", "/proc/self/status");
  told_bytes(output, "pid-ns", link, call(SYS_readlinkat, AT_FDCWD, (long)"/proc/self/ns/pid", (long)link, sizeof link, 0, 0));
  told(output, "read-outside", open_file(canary, O_RDONLY));
  told(output, "write-outside", open_file(canary, O_WRONLY));
  /* Only asks for access: a write that succeeded would stay. */
  write_system(output);
  told(output, "core-pattern", open_file("/proc/sys/kernel/core_pattern", O_WRONLY));
  /* Sets the present modes: nothing changes if it succeeds. */
  told(output, "shared-dev", CALL3(SYS_fchmodat, AT_FDCWD, "/dev/full", 0666));
  told(output, "shared-proc", CALL3(SYS_fchmodat, AT_FDCWD, "/proc/version", 0444));
  /* A file in no folder: nothing is left if it succeeds. */
  told(output, "suid", CALL2(SYS_fchmod, CALL2(SYS_memfd_create, "probe", 0), 04755));
  network(output, number_in(port));
  if (!processes(output, daemon_pid)) return 0;
  /* Last, since it changes the program itself. */
  told(output, "namespaces", CALL1(SYS_unshare, CLONE_NEWUSER | CLONE_NEWNS));
  put_text(output, "end\n");
  return 1;
}

static int run(int argc, char **argv, char **env) {
  (void)argc, (void)argv, (void)env;
  char input[INPUT_MAX];
  const char *words[3] = {input, 0, 0};
  for (int bytes = 0, ended = 0; ended < 3; bytes++) {
    if (bytes == INPUT_MAX || CALL3(SYS_read, 0, input + bytes, 1) != 1) return 1;
    if (input[bytes] == 0 && ++ended < 3) words[ended] = input + bytes + 1;
  }
  /* On the stack: a program without writable data loads alike on every kernel. */
  struct output output;
  output.bytes = 0;
  if (!try_all(&output, words[0], words[1], words[2])) return 0;
  for (unsigned long done = 0; done < output.bytes;) {
    const long put = CALL3(SYS_write, 1, output.text + done, output.bytes - done);
    if (put <= 0) return 1;
    done += (unsigned long)put;
  }
  CALL3(SYS_read, 0, input, 1);
  return 0;
}
