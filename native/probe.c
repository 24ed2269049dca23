/*
 * Tries a sandbox from inside: makes the system calls listed on descriptor 0, one after the other, and writes their
 * results to descriptor 1. The kernel itself answers, so no interpreter, library or tool is needed that a machine may
 * lack, and calls can be tried that no shell can make (AF_VSOCK, ptrace, TIOCSTI).
 *
 * Input, written by src/sandbox/proof/probe-program.ts: a header, the steps, and the initial content of a block of memory
 * that the steps may point into. Output: the result of each step (a negative result is an errno), then the first
 * `told_bytes` of the memory, into which the calls have written. The program ends when descriptor 0 is closed; until then
 * the daemon can inspect the living process from outside.
 */
#include <signal.h>

#include "kernel.h"

#define STEPS_MAX 256
#define MEMORY_MAX 65536
#define ARGUMENTS 6

/* Used as a call's number: a new process makes the next `arguments[0]` steps and ends; the result is that process's pid. */
#define FORK -1

enum kind { NUMBER, RESULT_OF_STEP, OFFSET_IN_MEMORY };

struct step {
  long number;
  long kinds[ARGUMENTS];
  long arguments[ARGUMENTS];
};

struct header {
  unsigned long steps;
  unsigned long memory_bytes;
  /* How many bytes of the memory are part of the output. */
  unsigned long told_bytes;
};

/* On the stack: a program without writable data loads alike on every kernel. */
struct probe {
  struct header header;
  struct step steps[STEPS_MAX];
  long results[STEPS_MAX];
  char memory[MEMORY_MAX];
};

static int read_whole(void *to, unsigned long bytes) {
  for (unsigned long done = 0; done < bytes;) {
    const long got = CALL3(SYS_read, 0, (char *)to + done, bytes - done);
    if (got <= 0) return 0;
    done += (unsigned long)got;
  }
  return 1;
}

static int write_whole(const void *from, unsigned long bytes) {
  for (unsigned long done = 0; done < bytes;) {
    const long put = CALL3(SYS_write, 1, (const char *)from + done, bytes - done);
    if (put <= 0) return 0;
    done += (unsigned long)put;
  }
  return 1;
}

static long value_of(const struct probe *probe, const struct step *step, int at) {
  const long argument = step->arguments[at];
  switch (step->kinds[at]) {
    case RESULT_OF_STEP:
      return probe->results[argument];
    case OFFSET_IN_MEMORY:
      return (long)(probe->memory + argument);
    default:
      return argument;
  }
}

static long do_step(const struct probe *probe, unsigned long at) {
  const struct step *step = &probe->steps[at];
  long values[ARGUMENTS];
  for (int i = 0; i < ARGUMENTS; i++) values[i] = value_of(probe, step, i);
  return call(step->number, values[0], values[1], values[2], values[3], values[4], values[5]);
}

static int read_all(struct probe *probe) {
  const struct header *header = &probe->header;
  if (!read_whole(&probe->header, sizeof probe->header)) return 0;
  if (header->steps > STEPS_MAX || header->memory_bytes > MEMORY_MAX || header->told_bytes > header->memory_bytes) return 0;
  return read_whole(probe->steps, header->steps * sizeof probe->steps[0]) &&
         read_whole(probe->memory, header->memory_bytes);
}

static int run(int argc, char **argv, char **env) {
  (void)argc, (void)argv, (void)env;
  struct probe probe;
  if (!read_all(&probe)) return 1;

  const unsigned long steps = probe.header.steps;
  for (unsigned long at = 0; at < steps; at++) {
    if (probe.steps[at].number != FORK) {
      probe.results[at] = do_step(&probe, at);
      continue;
    }
    const unsigned long children = (unsigned long)probe.steps[at].arguments[0];
    /* arm64 has no fork. */
    probe.results[at] = CALL1(SYS_clone, SIGCHLD);
    if (probe.results[at] == 0) {
      for (unsigned long i = at + 1; i <= at + children && i < steps; i++) do_step(&probe, i);
      return 0;
    }
    for (unsigned long i = at + 1; i <= at + children && i < steps; i++) probe.results[i] = 0;
    at += children;
  }

  if (!write_whole(probe.results, steps * sizeof probe.results[0])) return 1;
  if (!write_whole(probe.memory, probe.header.told_bytes)) return 1;
  CALL3(SYS_read, 0, probe.memory, 1);
  return 0;
}
