/*
 * door LINE TOKEN PORTS PROGRAM [ARGUMENT ...]
 *
 * Starts the sandbox PROGRAM (bubblewrap) in a network of its own, whose only way out is a listening socket of the egress
 * proxy at 127.0.0.1:3128. Only who owns a network may listen at port 53, so this program makes the network in place of
 * bubblewrap, and leaves out the argument by which bubblewrap would make another one.
 * A child of it stays outside of the sandbox. At the first connection it sends the listening socket over the socket LINE,
 * with the token that it reads from descriptor TOKEN: a command that connects to nothing costs the proxy nothing. It
 * refuses each name that is asked of the resolver at once, and sends the name. It does the same for each of PORTS
 * ("5432,6379", or "-" for none), which stand for services of the machine, and writes to TOKEN,
 * a line each, the ports of 127.0.0.1 at which the kernel refused a connection. It ends with PROGRAM.
 * If the kernel refuses to make a network, PROGRAM (with its argument left in) makes an empty one, and no proxy is reached.
 */
#include <asm/errno.h>
#include <fcntl.h>
#include <linux/filter.h>
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
/* Ports of one command that are written, likewise. */
#define REFUSED_MAX 32
#define SERVICES_MAX 16
#define DESCRIPTORS_MAX 256
#define QUERY_BYTES_MAX 512
#define HEADER_BYTES 12
/* What a child waits for beside listeners: the resolver, refusals, and the end of its parent. */
#define FIXED 3
#define IP_HEADER_BYTES_MAX 60
#define TCP_HEADER_BYTES 20
#define PORT_CHARS 7

/* Sockets that wait for connections, and the port of each. */
struct listeners {
  int count;
  int fds[1 + SERVICES_MAX];
  int ports[1 + SERVICES_MAX];
};

/*
 * Node receives a descriptor only over the channel between a Node and its parent, and only with this message. The message
 * is no public interface of Node: test/programs/sandbox/native.test.ts asks the Node that runs whether it takes it.
 */
static const char before_token[] = "{\"cmd\":\"NODE_HANDLE\",\"type\":\"net.Native\",\"msg\":{\"token\":\"";
static const char before_token_alone[] = "{\"token\":\"";

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

/* Writes a port in digits, and gives where they begin. */
static char *digits_of(int port, char text[PORT_CHARS]) {
  char *at = text + PORT_CHARS - 1;
  *at = 0;
  do *--at = (char)('0' + port % 10); while (port /= 10);
  return at;
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

static unsigned long length_of(const char *text) {
  unsigned long length = 0;
  while (text[length]) length++;
  return length;
}

struct told {
  int line;
  char token[TOKEN_BYTES_MAX];
  unsigned long token_bytes;
};

/* Sends {"token":"…","KEY":"VALUE"}; `key` is `","KEY":"`. */
static void tell(struct told *told, const char *key, char *value) {
  struct iovec parts[] = {{(void *)before_token_alone, sizeof before_token_alone - 1},
                          {told->token, told->token_bytes},
                          {(void *)key, length_of(key)},
                          {value, length_of(value)},
                          {"\"}\n", 3}};
  send_parts(told->line, parts, 5, (struct msghdr){0});
}

/* Hands over a listening socket, with its port if it is that of a service. */
static void hand_over(struct told *told, int listener, int port) {
  union {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
  } control;
  char text[PORT_CHARS];
  char *digits = port == PROXY_PORT ? "" : digits_of(port, text);
  control.header.cmsg_level = SOL_SOCKET;
  control.header.cmsg_type = SCM_RIGHTS;
  control.header.cmsg_len = CMSG_LEN(sizeof(int));
  *(int *)CMSG_DATA(&control.header) = listener;
  struct iovec parts[] = {{(void *)before_token, sizeof before_token - 1},
                          {told->token, told->token_bytes},
                          {"\",\"service\":\"", 13},
                          {digits, length_of(digits)},
                          {"\"}}\n", 4}};
  send_parts(told->line, parts, 5, (struct msghdr){.msg_control = &control, .msg_controllen = sizeof control});
}

/*
 * A socket that gets what the kernel answers to a connection to a port of 127.0.0.1 at which nothing listens: a reset with
 * an acknowledgement and the sequence number 0. The filter keeps everything else from it.
 */
static int open_refusals(void) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 12), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, INADDR_LOOPBACK, 0, 7),
      BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, 0), BPF_STMT(BPF_LD | BPF_B | BPF_IND, 13),
      BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0x17), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0x14, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_IND, 4), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, IP_HEADER_BYTES_MAX + TCP_HEADER_BYTES), BPF_STMT(BPF_RET | BPF_K, 0)};
  const struct sock_fprog filter = {sizeof code / sizeof *code, code};
  const long made = CALL3(SYS_socket, AF_INET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);
  if (made < 0) return -1;
  if (call(SYS_setsockopt, made, SOL_SOCKET, SO_ATTACH_FILTER, (long)&filter, sizeof filter, 0) == 0) return (int)made;
  CALL1(SYS_close, made);
  return -1;
}

/* The port of the next refusal; 0 if there is none. */
static int refused_port(int refusals) {
  unsigned char packet[IP_HEADER_BYTES_MAX + TCP_HEADER_BYTES];
  const long length = call(SYS_recvfrom, refusals, (long)packet, sizeof packet, 0, 0, 0);
  const long header = length > 0 ? 4 * (packet[0] & 15) : 0;
  return header && length >= header + TCP_HEADER_BYTES ? packet[header] << 8 | packet[header + 1] : 0;
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

struct query {
  unsigned char bytes[QUERY_BYTES_MAX];
  long length;
  struct sockaddr_in from;
  int from_bytes;
};

/* Takes a query, and gives the length of its name. */
static unsigned long take_query(int resolver, struct query *it, char *name) {
  it->from_bytes = sizeof it->from;
  it->length = call(SYS_recvfrom, resolver, (long)it->bytes, sizeof it->bytes, 0, (long)&it->from, (long)&it->from_bytes);
  return name_of(it->bytes, it->length, name);
}

/* Answers REFUSED. */
static void refuse(int resolver, struct query *it) {
  it->bytes[2] |= 0x80;
  it->bytes[3] = 0x80 | 5;
  call(SYS_sendto, resolver, (long)it->bytes, it->length, MSG_NOSIGNAL, (long)&it->from, it->from_bytes);
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

static void tell_refused(int to, int refusals) {
  static int ports[REFUSED_MAX];
  static int count;
  char text[PORT_CHARS];
  for (int port; count < REFUSED_MAX && (port = refused_port(refusals));) {
    int known = 0;
    for (int i = 0; i < count; i++) known |= ports[i] == port;
    if (known) continue;
    ports[count++] = port;
    char *digits = digits_of(port, text);
    const unsigned long length = length_of(digits);
    digits[length] = '\n';
    call(SYS_sendto, to, (long)digits, length + 1, MSG_NOSIGNAL | MSG_DONTWAIT, 0, 0);
  }
}

static int is_kept(int fd, const struct pollfd *waited, int count) {
  int kept = 0;
  for (int i = 0; i < count; i++) kept |= fd == waited[i].fd;
  return kept;
}

/* Whether something is to be done for which the token is needed. */
static int is_served(const struct pollfd *waited, int count) {
  int served = waited[0].revents;
  for (int i = FIXED; i < count; i++) served |= waited[i].revents;
  return served;
}

/* The child: waits for what the command does, with nothing open but these. */
static int serve(int line, int token_from, int parent, int resolver, int refusals, const struct listeners *all) {
  struct told told = {.line = line};
  struct query query;
  char name[NAME_BYTES_MAX + 1];
  char last[NAME_BYTES_MAX + 1] = "";
  int names = 0;
  struct pollfd waited[FIXED + 1 + SERVICES_MAX] = {{resolver, POLLIN, 0}, {refusals, POLLIN, 0}, {parent, POLLIN, 0}};
  for (int i = 0; i < all->count; i++) waited[FIXED + i] = (struct pollfd){all->fds[i], POLLIN, 0};
  for (int fd = 0; fd < DESCRIPTORS_MAX; fd++)
    if (fd != line && fd != token_from && !is_kept(fd, waited, FIXED + all->count)) CALL1(SYS_close, fd);
  while (call(SYS_ppoll, (long)waited, FIXED + all->count, 0, 0, 8, 0) > 0) {
    if (waited[1].revents) tell_refused(token_from, refusals);
    /* What was refused last came before the end. */
    if (waited[2].revents) return 0;
    if (!is_served(waited, FIXED + all->count)) continue;
    if (!told.token_bytes && !(told.token_bytes = (unsigned long)read_token(token_from, told.token))) return 0;
    if (waited[0].revents) {
      const unsigned long length = take_query(resolver, &query, name);
      name[length] = 0;
      /* One lookup asks several times. Told first: the command may end with the answer, and its connections with it. */
      if (length && !is_same(name, last) && names++ < NAMES_MAX) tell(&told, "\",\"name\":\"", name);
      if (length) refuse(resolver, &query);
      memcpy(last, name, length + 1);
    }
    for (int i = 0; i < all->count; i++) {
      struct pollfd *it = waited + FIXED + i;
      if (it->fd < 0 || !it->revents) continue;
      hand_over(&told, it->fd, all->ports[i]);
      CALL1(SYS_close, it->fd);
      it->fd = -1;
      it->revents = 0;
    }
  }
  return 0;
}

static int listen_at(int port, struct listeners *all) {
  const int fd = socket_at(SOCK_STREAM, port);
  if (fd < 0 || CALL2(SYS_listen, fd, BACKLOG) < 0) return 0;
  all->fds[all->count] = fd;
  all->ports[all->count++] = port;
  return 1;
}

/* Makes the network, and the child that serves it; whether it did. */
static int open_door(int line, int token_from, const char *ports) {
  struct listeners all = {0};
  const long user = CALL1(SYS_geteuid, 0);
  const long group = CALL1(SYS_getegid, 0);
  if (CALL1(SYS_unshare, CLONE_NEWUSER | CLONE_NEWNET) < 0) return 0;
  forbid_groups();
  if (!write_map("/proc/self/uid_map", user) || !write_map("/proc/self/gid_map", group) || !bring_up_loopback()) return -1;
  const int resolver = socket_at(SOCK_DGRAM, RESOLVER_PORT);
  if (!listen_at(PROXY_PORT, &all)) return -1;
  while (*ports >= '0' && *ports <= '9' && all.count <= SERVICES_MAX) {
    listen_at(number(ports), &all);
    while (*ports && *ports++ != ',') continue;
  }
  const int refusals = open_refusals();
  const long parent = CALL1(SYS_getpid, 0);
  const long child = call(SYS_clone, SIGCHLD, 0, 0, 0, 0, 0);
  if (child == 0) {
    /* A signal would end the child before it has told what it heard last; without such a descriptor the signal has to do. */
    const long end = CALL2(SYS_pidfd_open, parent, 0);
    if (end < 0) CALL2(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL);
    const int is_late = CALL1(SYS_getppid, 0) != parent;
    CALL1(SYS_exit_group, is_late ? 0 : serve(line, token_from, (int)end, resolver, refusals, &all));
  }
  return child > 0 ? 1 : -1;
}

static int run(int argc, char **argv, char **env) {
  if (argc < 5) return 2;
  const int line = number(argv[1]);
  const int token_from = number(argv[2]);
  const int opened = open_door(line, token_from, argv[3]);
  if (opened < 0) return 126;
  CALL1(SYS_close, line);
  CALL1(SYS_close, token_from);
  char **words = argv + 4;
  if (opened) {
    int at = 1;
    while (words[at] && !is_same(words[at], "--unshare-net")) at++;
    for (; words[at]; at++) words[at] = words[at + 1];
  }
  CALL3(SYS_execve, words[0], words, env);
  return 127;
}
