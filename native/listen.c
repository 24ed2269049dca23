/*
 * listen LINE TOKEN PORT PROGRAM [ARGUMENT ...]
 *
 * The first program of a command that may use the network. It makes a listening socket in the command's network
 * namespace, at PORT of its loopback, hands that to the egress proxy over the socket LINE, with the token that it reads
 * from descriptor TOKEN, and becomes PROGRAM. A socket stays in the namespace in which it was made, so the proxy accepts
 * connections there, and nothing of Ringfence stays in the sandbox: no process, no path, no descriptor.
 * A call that fails is not reported: then nobody listens, and the command has no network.
 */
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "kernel.h"

#define BACKLOG 128
#define TOKEN_BYTES_MAX 256

/*
 * Node receives a descriptor only over the channel between a Node and its parent, and only with this message. The message
 * is no public interface of Node: test/unit/sandbox/native.test.ts asks the Node that runs whether it takes it.
 */
static const char before[] = "{\"cmd\":\"NODE_HANDLE\",\"type\":\"net.Native\",\"msg\":{\"token\":\"";
static const char after[] = "\"}}\n";

static int number(const char *digits) {
  int value = 0;
  for (; *digits >= '0' && *digits <= '9'; digits++) value = 10 * value + (*digits - '0');
  return value;
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

static int make_listener(int port) {
  const struct sockaddr_in address = {
      .sin_family = AF_INET,
      .sin_port = __builtin_bswap16((unsigned short)port),
      .sin_addr = {__builtin_bswap32(INADDR_LOOPBACK)},
  };
  const long listener = CALL3(SYS_socket, AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  CALL3(SYS_bind, listener, &address, sizeof address);
  CALL2(SYS_listen, listener, BACKLOG);
  return (int)listener;
}

static void hand_over(int listener, int line, const char *token, long token_bytes) {
  union {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
  } control;
  control.header.cmsg_level = SOL_SOCKET;
  control.header.cmsg_type = SCM_RIGHTS;
  control.header.cmsg_len = CMSG_LEN(sizeof(int));
  *(int *)CMSG_DATA(&control.header) = listener;

  struct iovec parts[] = {
      {(void *)before, sizeof before - 1}, {(void *)token, (unsigned long)token_bytes}, {(void *)after, sizeof after - 1}};
  const struct msghdr message = {
      .msg_iov = parts, .msg_iovlen = 3, .msg_control = &control, .msg_controllen = sizeof control};
  CALL3(SYS_sendmsg, line, &message, MSG_NOSIGNAL);
}

static int run(int argc, char **argv, char **env) {
  if (argc < 5) return 2;
  const int line = number(argv[1]);
  const int token_from = number(argv[2]);
  char token[TOKEN_BYTES_MAX];
  const long token_bytes = read_token(token_from, token);
  hand_over(make_listener(number(argv[3])), line, token, token_bytes);
  CALL1(SYS_close, line);
  CALL1(SYS_close, token_from);
  /* bubblewrap has written this program into the sandbox. */
  CALL3(SYS_unlinkat, AT_FDCWD, argv[0], 0);
  CALL3(SYS_execve, argv[4], argv + 4, env);
  return 127;
}
