/*
 * enter FILE_BYTES OPEN_FILES CPU_SECONDS ADDRESS_BYTES DATA_BYTES PROCESSES BUILT GATE PROGRAM [ARGUMENT ...]
 *
 * The first program in a sandbox whose files are an image's, where no bash of the machine is, and before the programs of
 * tools: dies with the thread that started it, sets the limits ("-" for one that is not set), says on descriptor BUILT
 * that the sandbox is there, waits for a line on GATE, and becomes PROGRAM, which it looks up in PATH. Without the line,
 * or with "-" for both descriptors, it ends or goes on.
 */
#include <asm/errno.h>
#include <asm/resource.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>

#include "kernel.h"
#include "namespaces.h"

#define PATH_BYTES_MAX 4096
#define FIXED 9
#define NOT_FOUND 127
#define NOT_RUN 126

struct limit {
  unsigned long soft;
  unsigned long hard;
};

static unsigned long number(const char *digits) {
  unsigned long value = 0;
  for (; *digits >= '0' && *digits <= '9'; digits++) value = 10 * value + (unsigned long)(*digits - '0');
  return value;
}

static int is_given(const char *word) { return *word != '-'; }

/* Keeps a lower limit that was inherited. */
static void bound(int resource, const char *word, unsigned long grace) {
  struct limit now = {0, 0};
  if (!is_given(word)) return;
  struct limit wanted = {number(word), number(word) + grace};
  call(SYS_prlimit64, 0, resource, 0, (long)&now, 0, 0);
  if (now.hard < wanted.hard) wanted.hard = now.hard;
  if (wanted.hard < wanted.soft) wanted.soft = wanted.hard;
  call(SYS_prlimit64, 0, resource, (long)&wanted, 0, 0, 0);
}

/* Whether a line came. */
static int wait_at(const char *built, const char *gate) {
  char it = 0;
  if (!is_given(built)) return 1;
  CALL3(SYS_write, number(built), "\n", 1);
  CALL1(SYS_close, number(built));
  while (it != '\n')
    if (CALL3(SYS_read, number(gate), &it, 1) != 1) return 0;
  CALL1(SYS_close, number(gate));
  return 1;
}

static const char *path_of(char **env) {
  for (; *env; env++) {
    const char *name = "PATH=";
    const char *at = *env;
    while (*name && *name == *at) name++, at++;
    if (!*name) return at;
  }
  return "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
}

static void say(const char *text) {
  unsigned long length = 0;
  while (text[length]) length++;
  CALL3(SYS_write, 2, text, length);
}

static int has_slash(const char *text) {
  while (*text && *text != '/') text++;
  return *text == '/';
}

/* Runs the first program of that name in PATH; gives the error of the last one that is there. */
static long execute(char **words, char **env) {
  char path[PATH_BYTES_MAX];
  long failed = -ENOENT;
  if (has_slash(words[0])) return CALL3(SYS_execve, words[0], words, env);
  for (const char *at = path_of(env); *at;) {
    char *to = path;
    const char *end = path + PATH_BYTES_MAX;
    while (*at && *at != ':' && to < end - 2) *to++ = *at++;
    while (*at && *at++ != ':') continue;
    *to++ = '/';
    append(to, end, words[0]);
    const long error = CALL3(SYS_execve, path, words, env);
    if (error != -ENOENT && error != -ENOTDIR) failed = error;
  }
  return failed;
}

static int run(int argc, char **argv, char **env) {
  if (argc <= FIXED) return 2;
  bound(RLIMIT_FSIZE, argv[1], 0);
  bound(RLIMIT_NOFILE, argv[2], 0);
  bound(RLIMIT_CPU, argv[3], 1);
  bound(RLIMIT_AS, argv[4], 0);
  bound(RLIMIT_DATA, argv[5], 0);
  bound(RLIMIT_NPROC, argv[6], 0);
  CALL2(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL);
  if (!wait_at(argv[7], argv[8])) return 1;
  const long error = execute(argv + FIXED, env);
  say(argv[FIXED]);
  say(error == -ENOENT ? ": not found in the image\n" : ": can't be run in the image\n");
  return error == -ENOENT ? NOT_FOUND : NOT_RUN;
}
