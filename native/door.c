/*
 * door LINE TOKEN PROGRAM [ARGUMENT ...]
 *
 * Starts the sandbox PROGRAM (bubblewrap) in a network of its own, whose only way out is a listening socket of the egress
 * proxy at 127.0.0.1:3128. Only who owns a network may listen at port 53, so this program makes the network in place of
 * bubblewrap, and leaves out the argument by which bubblewrap would make another one.
 * A child of it stays outside of the sandbox. At the first connection it sends the listening socket over the socket LINE,
 * with the token that it reads from descriptor TOKEN: a command that connects to nothing costs the proxy nothing. It
 * refuses each name that is asked of the resolver at once, and sends the name. It ends with PROGRAM.
 * If the kernel refuses to make a network, PROGRAM (with its argument left in) makes an empty one, and no proxy is reached.
 */
#include <asm/errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "kernel.h"
#include "namespaces.h"

#define BACKLOG 128
#define PROXY_PORT 3128
#define RESOLVER_PORT 53
#define TOKEN_BYTES_MAX 256
#define NAME_BYTES_MAX 253
/* Names of one command that are sent; the command chooses them. */
#define NAMES_MAX 32
#define DESCRIPTORS_MAX 256
#define QUERY_BYTES_MAX 512
#define HEADER_BYTES 12

/*
 * Node receives a descriptor only over the channel between a Node and its parent, and only with this message. The message
 * is no public interface of Node: test/programs/sandbox/native.test.ts asks the Node that runs whether it takes it.
 */
static const char before_token[] = "{\"cmd\":\"NODE_HANDLE\",\"type\":\"net.Native\",\"msg\":{\"token\":\"";
static const char before_name[] = "{\"token\":\"";

/* No C library is there to have these; the compiler calls them for copies and fills. */
void *memset(void *to, int byte, unsigned long count) {
  for (char *at = to; count--;) *at++ = (char)byte;
  return to;
}
void *memcpy(void *to, const void *from, unsigned long count) {
  char *at = to;
  for (const char *it = from; count--;) *at++ = *it++;
  return to;
}

static int number(const char *digits) {
  int value = 0;
  for (; *digits >= '0' && *digits <= '9'; digits++) value = 10 * value + (*digits - '0');
  return value;
}

static int is_same(const char *a, const char *b) {
  for (; *a && *a == *b; a++) b++;
  return *a == *b;
}

static void forbid_groups(void) {
  const long file = CALL3(SYS_openat, AT_FDCWD, "/proc/self/setgroups", O_WRONLY | O_CLOEXEC);
  CALL3(SYS_write, file, "deny", 4);
  CALL1(SYS_close, file);
}

static int bring_up_loopback(void) {
  struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP};
  const long socket = CALL3(SYS_socket, AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const long done = CALL3(SYS_ioctl, socket, SIOCSIFFLAGS, &request);
  CALL1(SYS_close, socket);
  return done == 0;
}

static int socket_at(int type, int port) {
  const struct sockaddr_in address = {
      .sin_family = AF_INET,
      .sin_port = __builtin_bswap16((unsigned short)port),
      .sin_addr = {__builtin_bswap32(INADDR_LOOPBACK)},
  };
  const long made = CALL3(SYS_socket, AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  return CALL3(SYS_bind, made, &address, sizeof address) == 0 ? (int)made : -1;
}

/* Sends the parts in one message, so that those of other commands on the same line can't come between. */
static void send_parts(int line, struct iovec *parts, unsigned long count, struct msghdr message) {
  message.msg_iov = parts;
  message.msg_iovlen = count;
  while (CALL3(SYS_sendmsg, line, &message, MSG_NOSIGNAL) == -EAGAIN) {
    struct pollfd room = {line, POLLOUT, 0};
    call(SYS_ppoll, (long)&room, 1, 0, 0, 8, 0);
  }
}

static void hand_over(int listener, int line, char *token, unsigned long token_bytes) {
  union {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
  } control;
  control.header.cmsg_level = SOL_SOCKET;
  control.header.cmsg_type = SCM_RIGHTS;
  control.header.cmsg_len = CMSG_LEN(sizeof(int));
  *(int *)CMSG_DATA(&control.header) = listener;
  struct iovec parts[] = {{(void *)before_token, sizeof before_token - 1}, {token, token_bytes}, {"\"}}\n", 4}};
  send_parts(line, parts, 3, (struct msghdr){.msg_control = &control, .msg_controllen = sizeof control});
}

/* Writes the name of a query as text, without anything that JSON would take for more; 0 for a message that is no query. */
static unsigned long name_of(const unsigned char *query, long length, char *name) {
  unsigned long written = 0;
  long at = HEADER_BYTES;
  if (length <= HEADER_BYTES || (query[2] & 0x80)) return 0;
  while (at < length && query[at]) {
    const long end = at + 1 + query[at];
    if (query[at] > 63 || end >= length || written + query[at] + 1 > NAME_BYTES_MAX) return 0;
    if (written) name[written++] = '.';
    for (at++; at < end; at++) {
      const unsigned char it = query[at] >= 'A' && query[at] <= 'Z' ? query[at] + 32 : query[at];
      const int is_plain = (it >= 'a' && it <= 'z') || (it >= '0' && it <= '9') || it == '-' || it == '_';
      name[written++] = is_plain ? (char)it : '?';
    }
  }
  return written;
}

/* Answers REFUSED to a query, and gives the length of its name. */
static unsigned long refuse(int resolver, char *name) {
  unsigned char query[QUERY_BYTES_MAX];
  struct sockaddr_in from;
  int from_bytes = sizeof from;
  const long length =
      call(SYS_recvfrom, resolver, (long)query, sizeof query, 0, (long)&from, (long)&from_bytes);
  const unsigned long written = name_of(query, length, name);
  if (!written) return 0;
  query[2] |= 0x80;
  query[3] = 0x80 | 5;
  call(SYS_sendto, resolver, (long)query, length, MSG_NOSIGNAL, (long)&from, from_bytes);
  return written;
}

static long read_token(int from, char *token) {
  long length = 0;
  while (length < TOKEN_BYTES_MAX) {
    const long got = CALL3(SYS_read, from, token + length, TOKEN_BYTES_MAX - length);
    if (got <= 0) break;
    length += got;
  }
  return length;
}

/* The child: waits for what the command does, with nothing open but these. */
static int serve(int line, int token_from, int listener, int resolver) {
  char token[TOKEN_BYTES_MAX];
  char name[NAME_BYTES_MAX + 1];
  char last[NAME_BYTES_MAX + 1] = "";
  long token_bytes = 0;
  int names = 0;
  struct pollfd waited[] = {{resolver, POLLIN, 0}, {listener, POLLIN, 0}};
  for (int fd = 0; fd < DESCRIPTORS_MAX; fd++)
    if (fd != line && fd != token_from && fd != listener && fd != resolver) CALL1(SYS_close, fd);
  while (call(SYS_ppoll, (long)waited, 2, 0, 0, 8, 0) > 0) {
    if (!token_bytes && !(token_bytes = read_token(token_from, token))) return 0;
    if (waited[0].revents) {
      const unsigned long length = refuse(resolver, name);
      struct iovec parts[] = {{(void *)before_name, sizeof before_name - 1}, {token, (unsigned long)token_bytes},
                              {"\",\"name\":\"", 10}, {name, length}, {"\"}\n", 3}};
      name[length] = 0;
      /* One lookup asks several times. */
      if (length && !is_same(name, last) && names++ < NAMES_MAX) send_parts(line, parts, 5, (struct msghdr){0});
      memcpy(last, name, length + 1);
    }
    if (!waited[1].revents) continue;
    hand_over(listener, line, token, (unsigned long)token_bytes);
    CALL1(SYS_close, listener);
    waited[1].fd = -1;
    waited[1].revents = 0;
  }
  return 0;
}

/* Makes the network, and the child that serves it; whether it did. */
static int open_door(int line, int token_from) {
  const long user = CALL1(SYS_geteuid, 0);
  const long group = CALL1(SYS_getegid, 0);
  if (CALL1(SYS_unshare, CLONE_NEWUSER | CLONE_NEWNET) < 0) return 0;
  forbid_groups();
  if (!write_map("/proc/self/uid_map", user) || !write_map("/proc/self/gid_map", group) || !bring_up_loopback()) return -1;
  const int listener = socket_at(SOCK_STREAM, PROXY_PORT);
  const int resolver = socket_at(SOCK_DGRAM, RESOLVER_PORT);
  if (CALL2(SYS_listen, listener, BACKLOG) < 0) return -1;
  const long parent = CALL1(SYS_getpid, 0);
  const long child = call(SYS_clone, SIGCHLD, 0, 0, 0, 0, 0);
  if (child == 0) {
    CALL2(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL);
    const int is_late = CALL1(SYS_getppid, 0) != parent;
    CALL1(SYS_exit_group, is_late ? 0 : serve(line, token_from, listener, resolver));
  }
  return child > 0 ? 1 : -1;
}

static int run(int argc, char **argv, char **env) {
  if (argc < 4) return 2;
  const int line = number(argv[1]);
  const int token_from = number(argv[2]);
  const int opened = open_door(line, token_from);
  if (opened < 0) return 126;
  CALL1(SYS_close, line);
  CALL1(SYS_close, token_from);
  char **words = argv + 3;
  if (opened) {
    int at = 1;
    while (words[at] && !is_same(words[at], "--unshare-net")) at++;
    for (; words[at]; at++) words[at] = words[at + 1];
  }
  CALL3(SYS_execve, words[0], words, env);
  return 127;
}
