/* Paths of processes, their namespaces, and the ids of a user namespace. */
#include <fcntl.h>

#define PATH_BYTES 64

/* Writes `text` to `to`, and gives where it ends; `end` is behind the last byte of `to`. */
__attribute__((unused)) static char *append(char *to, const char *end, const char *text) {
  while (*text && to < end - 1) *to++ = *text++;
  *to = 0;
  return to;
}

/* Opens `/ns/mnt` or another namespace of process `pid`; negative if there is none. */
__attribute__((unused)) static long open_namespace(const char *pid, const char *name) {
  char path[PATH_BYTES];
  const char *end = path + PATH_BYTES;
  append(append(append(path, end, "/proc/"), end, pid), end, name);
  return CALL3(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
}

/* Maps an id to itself: "ID ID 1", in one write. */
__attribute__((unused)) static int write_map(const char *path, long id) {
  char text[64];
  char *at = text + sizeof text;
  *--at = '1';
  for (int twice = 0; twice < 2; twice++) {
    long rest = id;
    *--at = ' ';
    do *--at = (char)('0' + rest % 10); while (rest /= 10);
  }
  const long file = CALL3(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CLOEXEC);
  const long written = CALL3(SYS_write, file, at, text + sizeof text - at);
  CALL1(SYS_close, file);
  return written > 0;
}
