/*
 * follow FOLDERS
 *
 * Reports what changes below its working directory, from the kernel's events (inotify) about each folder of it: at most
 * FOLDERS, with absolute paths below 4096 bytes. A folder is watched before its names are read, and read before an answer
 * is given, so nothing is missed between the two. No step recurses, and memory is bounded by FOLDERS, since others shape
 * the tree. After the kernel dropped events the program starts anew in its own process.
 *
 * Standard output has records: three numbers of 16 bits (kind, length of folder, length of name), the folder relative to
 * the working directory, and the name in it. A length of 0xffff means the folder of the record before.
 * Each byte on standard input asks for an ANSWERED record behind all events up to then. The program ends with its input.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "kernel.h"

typedef unsigned short half;

/* Kinds of records; src/hosts/follower/records.ts has the same. */
enum {
  CREATED = 1,
  MOVED_IN = 2,
  MOVED_OUT = 4,
  DELETED = 8,
  WRITTEN = 16,
  CLOSED = 32,
  ATTRIBUTES = 64,
  IS_FOLDER = 128,
  /* The name stood in a new folder when that was read. */
  FOUND = 256,
  READY = 0x8001,
  ANSWERED = 0x8002,
  LOST = 0x8003,
  BEYOND = 0x8004,
  UNREADABLE = 0x8005,
};
/* Why a folder is BEYOND what is followed; the name of such a record. */
enum { TOO_LONG = 'l', TOO_MANY = 'm', NO_WATCHES = 'w' };

#define FOLDERS_MAX 200000
#define WATCHES 524288
#define ROOT 1
#define SAME_FOLDER 0xffff
#define NAMES_BYTES (512L * FOLDERS_MAX)
#define SLACK_BYTES (1 << 20)
#define FOLDERS_A_TURN 64
#define EVENTS                                                                                              \
  (IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_MOVE_SELF | IN_MODIFY | IN_CLOSE_WRITE | IN_ATTRIB | \
   IN_ONLYDIR | IN_DONT_FOLLOW | IN_EXCL_UNLINK)

struct folder {
  int watch;
  int parent;
  int first_child;
  int next;
  int before;
  int next_unread;
  unsigned name;
  unsigned char name_bytes;
  /* It was moved to a place in the tree, of which it is told next. */
  unsigned char has_arrived : 1;
  unsigned char is_unread : 1;
  unsigned char is_new : 1;
};

static struct folder folders[FOLDERS_MAX + 1];
static int by_watch[WATCHES];
static char name_halves[2][NAMES_BYTES];
static char *names; /* The half in use. No value here: one would cost a page of 64 KiB in the arm64 program. */
static long names_used, names_live;
static int folders_max, folders_made, folders_now, first_free, first_unread, last_unread;
static long inotify, root, root_bytes;
static char is_ready;

static unsigned char out[65536];
static long out_bytes;
static char told_path[PATH_MAX];
static long told_bytes;
static int told_folder;

static void copy(char *to, const char *from, long bytes) {
  for (long i = 0; i < bytes; i++) to[i] = from[i];
}

static long length_of(const char *text) {
  long length = 0;
  while (text[length]) length++;
  return length;
}

__attribute__((noreturn)) static void leave(int status) {
  CALL1(SYS_exit_group, status);
  __builtin_unreachable();
}

static void flush(void) {
  for (long at = 0; at < out_bytes;) {
    const long wrote = CALL3(SYS_write, 1, out + at, out_bytes - at);
    if (wrote < 0 && wrote != -EINTR) leave(1);
    if (wrote > 0) at += wrote;
  }
  out_bytes = 0;
}

/* The path of a folder relative to the root, ended by 0; its length, or -1 for a path that is too long. */
static long path_of(int folder, char *path) {
  long start = PATH_MAX - 1;
  char whole[PATH_MAX];
  for (int at = folder; at != ROOT; at = folders[at].parent) {
    const long bytes = folders[at].name_bytes;
    if (start - bytes - 1 < root_bytes) return -1;
    start -= bytes + 1;
    copy(whole + start, names + folders[at].name, bytes);
    whole[start + bytes] = '/';
  }
  const long bytes = start == PATH_MAX - 1 ? 0 : PATH_MAX - 2 - start;
  copy(path, whole + start, bytes);
  path[bytes] = 0;
  return bytes;
}

static void put(half kind, half folder_bytes, half name_bytes) {
  const half head[3] = {kind, folder_bytes, name_bytes};
  copy((char *)out + out_bytes, (const char *)head, sizeof head);
  out_bytes += sizeof head;
}

static void tell(half kind, int folder, const char *name, long name_bytes) {
  static half last_kind;
  static char last_name[NAME_MAX];
  static long last_bytes;
  const char is_same = folder == told_folder;
  if (is_same && kind == WRITTEN && last_kind == WRITTEN && name_bytes == last_bytes) {
    long same = 0;
    while (same < name_bytes && name[same] == last_name[same]) same++;
    if (same == name_bytes) return;
  }
  if (!is_same) {
    told_bytes = path_of(folder, told_path);
    told_folder = told_bytes < 0 ? 0 : folder;
    if (told_bytes < 0) {
      kind = BEYOND;
      name = "l";
      name_bytes = 1;
      told_bytes = 0;
    }
  }
  if (out_bytes + 6 + PATH_MAX + NAME_MAX > (long)sizeof out) flush();
  put(kind, is_same ? SAME_FOLDER : (half)told_bytes, (half)name_bytes);
  if (!is_same) {
    copy((char *)out + out_bytes, told_path, told_bytes);
    out_bytes += told_bytes;
  }
  copy((char *)out + out_bytes, name, name_bytes);
  out_bytes += name_bytes;
  last_kind = kind;
  last_bytes = name_bytes;
  copy(last_name, name, name_bytes);
}

/* The place of a watch in the table, or the free one where it would be. */
static unsigned place_of(int watch) {
  unsigned at = (unsigned)watch * 2654435761u % WATCHES;
  while (by_watch[at] && folders[by_watch[at]].watch != watch) at = (at + 1) % WATCHES;
  return at;
}

static void forget_watch(int watch) {
  unsigned hole = place_of(watch);
  by_watch[hole] = 0;
  for (unsigned at = (hole + 1) % WATCHES; by_watch[at]; at = (at + 1) % WATCHES) {
    const unsigned home = (unsigned)folders[by_watch[at]].watch * 2654435761u % WATCHES;
    if ((at - home) % WATCHES < (at - hole) % WATCHES) continue;
    by_watch[hole] = by_watch[at];
    by_watch[at] = 0;
    hole = at;
  }
}

/* Moves the names in use together once they are less than half of all. */
static void tidy_names(void) {
  if (names_used < 2 * names_live + SLACK_BYTES && names_used + NAME_MAX < NAMES_BYTES) return;
  char *to = names == name_halves[0] ? name_halves[1] : name_halves[0];
  names_used = 0;
  for (int at = ROOT + 1; at <= folders_made; at++) {
    if (!folders[at].watch) continue;
    copy(to + names_used, names + folders[at].name, folders[at].name_bytes);
    folders[at].name = (unsigned)names_used;
    names_used += folders[at].name_bytes;
  }
  const long page = 4096, start = ((long)names + page - 1) & -page;
  CALL3(SYS_madvise, start, (NAMES_BYTES - page) & -page, MADV_DONTNEED);
  names = to;
}

static void set_name(struct folder *folder, const char *name, long bytes) {
  names_live += bytes - folder->name_bytes;
  tidy_names();
  copy(names + names_used, name, bytes);
  folder->name = (unsigned)names_used;
  folder->name_bytes = (unsigned char)bytes;
  names_used += bytes;
}

static void link_to(int folder, int parent) {
  const int next = folders[parent].first_child;
  folders[folder].parent = parent;
  folders[folder].before = 0;
  folders[folder].next = next;
  if (next) folders[next].before = folder;
  folders[parent].first_child = folder;
}

static void unlink_from_parent(int folder) {
  const struct folder it = folders[folder];
  if (it.before) folders[it.before].next = it.next;
  else folders[it.parent].first_child = it.next;
  if (it.next) folders[it.next].before = it.before;
}

static void remove_one(int folder) {
  struct folder *it = &folders[folder];
  forget_watch(it->watch);
  CALL2(SYS_inotify_rm_watch, inotify, it->watch);
  unlink_from_parent(folder);
  names_live -= it->name_bytes;
  const int next_unread = it->next_unread;
  const unsigned char is_unread = it->is_unread;
  *it = (struct folder){.next_unread = next_unread, .is_unread = is_unread, .next = first_free};
  first_free = folder;
  folders_now--;
}

/* Removes a folder with all below it, innermost first. */
static void remove_tree(int top) {
  if (top == ROOT) leave(3);
  told_folder = 0;
  for (;;) {
    int at = top;
    /* While moves are told one after the other, a folder may seem to lie in itself. */
    for (int steps = 0; folders[at].first_child && steps <= folders_made; steps++) at = folders[at].first_child;
    remove_one(at);
    if (at == top) return;
  }
}

static void read_later(int folder, char is_new) {
  folders[folder].is_new = is_new;
  if (folders[folder].is_unread) return;
  folders[folder].is_unread = 1;
  folders[folder].next_unread = 0;
  if (last_unread) folders[last_unread].next_unread = folder;
  else first_unread = folder;
  last_unread = folder;
}

/* Opens a folder beneath the root through no link, and enters it, so that its entries are reached by one name. */
static long enter_folder(int folder) {
  char path[PATH_MAX];
  const long bytes = path_of(folder, path);
  if (bytes < 0) return -ENAMETOOLONG;
  const struct open_how how = {
      .flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW,
      .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
  };
  const long fd = call(SYS_openat2, root, (long)(bytes ? path : "."), (long)&how, sizeof how, 0, 0);
  if (fd >= 0) CALL1(SYS_fchdir, fd);
  return fd;
}

static long watch_entry(const char *name) { return CALL3(SYS_inotify_add_watch, inotify, name, EVENTS); }

static void tell_beyond(int parent, char why) {
  static char is_told;
  /* Once for all folders that there were before. */
  if (!is_ready && is_told) return;
  is_told = 1;
  tell(BEYOND, parent, &why, 1);
}

static int new_folder(int watch) {
  const int at = first_free ? first_free : ++folders_made;
  struct folder *it = &folders[at];
  if (first_free) first_free = it->next;
  /* A removed folder may still be in the queue of those to be read. */
  *it = (struct folder){.watch = watch, .next_unread = it->next_unread, .is_unread = it->is_unread};
  by_watch[place_of(watch)] = at;
  folders_now++;
  return at;
}

enum reason { IS_NEW, WAS_MOVED, HAS_CHANGED };

/* An entry of the entered folder `parent` is a folder, or was one. */
static void arrive(int parent, const char *name, enum reason reason) {
  const long bytes = length_of(name);
  char path[PATH_MAX];
  const long parent_bytes = path_of(parent, path);
  if (parent_bytes < 0 || root_bytes + parent_bytes + bytes + 2 >= PATH_MAX) return tell_beyond(parent, TOO_LONG);
  /* Not watched first and dropped then: the kernel would tell of each, and its queue would be full. */
  if (reason == IS_NEW && folders_now >= folders_max) return tell_beyond(parent, TOO_MANY);
  long watch = watch_entry(name);
  if (watch == -EACCES) return tell(UNREADABLE, parent, name, bytes);
  if (watch == -ENOSPC || watch == -ENOMEM) return tell_beyond(parent, NO_WATCHES);
  if (watch < 0) return;
  int at = by_watch[place_of((int)watch)];
  /* The kernel tells of each move, so one that is only seen, as through another mount, is none. */
  if (at == ROOT || (at && reason != WAS_MOVED)) return;
  if (at) {
    folders[at].has_arrived = 1;
    unlink_from_parent(at);
    told_folder = 0;
  } else {
    if (folders_now >= folders_max) {
      CALL2(SYS_inotify_rm_watch, inotify, watch);
      return tell_beyond(parent, TOO_MANY);
    }
    at = new_folder((int)watch);
    read_later(at, is_ready);
  }
  set_name(&folders[at], name, bytes);
  link_to(at, parent);
}

struct entry {
  unsigned long long inode;
  long long offset;
  half bytes;
  unsigned char type;
  char name[];
};

static char is_dots(const char *name) { return name[0] == '.' && (!name[1] || (name[1] == '.' && !name[2])); }

static void read_folder(int folder) {
  static char entries[32768] __attribute__((aligned(8)));
  const char is_new = folders[folder].is_new;
  const long fd = enter_folder(folder);
  if (fd < 0) return;
  for (long bytes; (bytes = CALL3(SYS_getdents64, fd, entries, sizeof entries)) > 0;) {
    for (long at = 0; at < bytes;) {
      const struct entry *it = (const struct entry *)(entries + at);
      at += it->bytes;
      if (is_dots(it->name)) continue;
      if (it->type == DT_DIR || it->type == DT_UNKNOWN) arrive(folder, it->name, IS_NEW);
      if (is_new) tell(CREATED | FOUND | (it->type == DT_DIR ? IS_FOLDER : 0), folder, it->name, length_of(it->name));
    }
  }
  CALL1(SYS_close, fd);
}

static void read_folders(void) {
  for (int turn = 0; first_unread && turn < FOLDERS_A_TURN; turn++) {
    const int folder = first_unread;
    first_unread = folders[folder].next_unread;
    if (!first_unread) last_unread = 0;
    folders[folder].is_unread = 0;
    if (folders[folder].watch) read_folder(folder);
  }
}

static half kind_of(unsigned mask) {
  const struct { unsigned mask; half kind; } kinds[] = {
      {IN_CREATE, CREATED},      {IN_MOVED_TO, MOVED_IN}, {IN_MOVED_FROM, MOVED_OUT}, {IN_DELETE, DELETED},
      {IN_MODIFY, WRITTEN},      {IN_CLOSE_WRITE, CLOSED}, {IN_ATTRIB, ATTRIBUTES},   {IN_ISDIR, IS_FOLDER},
  };
  half kind = 0;
  for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (mask & kinds[i].mask) kind |= kinds[i].kind;
  return kind;
}

static void take_event(const struct inotify_event *event) {
  const int folder = by_watch[place_of(event->wd)];
  if (!folder) return;
  if (event->mask & IN_IGNORED) return remove_tree(folder);
  if (event->mask & IN_MOVE_SELF) {
    if (!folders[folder].has_arrived) return remove_tree(folder);
    folders[folder].has_arrived = 0;
    return;
  }
  if (!event->len) return;
  /* Also one whose permissions changed, since it may be readable only now. */
  if (event->mask & IN_ISDIR && event->mask & (IN_CREATE | IN_MOVED_TO | IN_ATTRIB)) {
    const long fd = enter_folder(folder);
    if (fd >= 0) {
      arrive(folder, event->name, event->mask & IN_CREATE ? IS_NEW : event->mask & IN_ATTRIB ? HAS_CHANGED : WAS_MOVED);
      CALL1(SYS_close, fd);
    }
  }
  tell(kind_of(event->mask), folder, event->name, length_of(event->name));
}

static void tell_count(half kind) {
  tell(kind, ROOT, (const char *)&folders_now, sizeof folders_now);
}

/* Reads events once; gives how many bytes. */
static long take_events(char **argv, char **env, char is_asked) {
  static char events[65536] __attribute__((aligned(8)));
  const long bytes = CALL3(SYS_read, inotify, events, sizeof events);
  for (long at = 0; at < bytes;) {
    const struct inotify_event *event = (const struct inotify_event *)(events + at);
    at += (long)sizeof *event + event->len;
    if (!(event->mask & IN_Q_OVERFLOW)) {
      take_event(event);
      continue;
    }
    tell(LOST, ROOT, "", 0);
    if (is_asked) tell_count(ANSWERED);
    flush();
    CALL1(SYS_fchdir, root);
    CALL3(SYS_execve, "/proc/self/exe", argv, env);
    leave(1);
  }
  return bytes;
}

static long waiting_bytes(void) {
  int bytes = 0;
  CALL3(SYS_ioctl, inotify, FIONREAD, &bytes);
  return bytes;
}

static void begin(char **argv) {
  names = name_halves[0];
  char path[PATH_MAX];
  long wanted = 0;
  for (const char *digit = argv[1]; *digit; digit++) wanted = 10 * wanted + (*digit - '0');
  folders_max = wanted < FOLDERS_MAX ? (int)wanted : FOLDERS_MAX;
  root_bytes = CALL2(SYS_getcwd, path, sizeof path) - 1;
  root = CALL3(SYS_openat, AT_FDCWD, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  inotify = CALL1(SYS_inotify_init1, IN_NONBLOCK | IN_CLOEXEC);
  const long watch = watch_entry(".");
  if (root_bytes < 0 || root < 0 || inotify < 0 || watch < 0) leave(2);
  read_later(new_folder((int)watch), 0);
}

static int run(int argc, char **argv, char **env) {
  if (argc < 2) return 2;
  begin(argv);
  long left = 0;
  for (char is_asked = 0;;) {
    /* An answer waits for the events of before, and then for the folders that these brought, not for later events. */
    const char is_answering = is_asked && left <= 0;
    struct pollfd from[2] = {{.fd = 0, .events = POLLIN}, {.fd = is_answering ? -1 : (int)inotify, .events = POLLIN}};
    const struct timespec now = {0};
    const char is_busy = first_unread || is_answering;
    call(SYS_ppoll, (long)from, 2, (long)(is_busy ? &now : 0), 0, 0, 0);
    if (from[1].revents) left -= take_events(argv, env, is_asked);
    if (from[0].revents) {
      char byte;
      if (CALL3(SYS_read, 0, &byte, 1) <= 0) return 0;
      is_asked = 1;
      left = waiting_bytes();
    }
    read_folders();
    if (!first_unread && !is_ready) {
      is_ready = 1;
      tell_count(READY);
    }
    if (!first_unread && is_asked && left <= 0) {
      is_asked = 0;
      tell_count(ANSWERED);
    }
    flush();
  }
}
