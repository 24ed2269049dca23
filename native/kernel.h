/*
 * How a program without a C library starts and calls the kernel, on x86_64 and arm64.
 * glibc linked statically would add 700 KB to each program and its licence to the package; these programs need nothing
 * of it but the declarations in its headers.
 */
#include <sys/syscall.h>

static long call(long number, long a, long b, long c, long d, long e, long f) {
#if defined(__x86_64__)
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  register long r9 __asm__("r9") = f;
  long result;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return result;
#elif defined(__aarch64__)
  register long x8 __asm__("x8") = number;
  register long x0 __asm__("x0") = a;
  register long x1 __asm__("x1") = b;
  register long x2 __asm__("x2") = c;
  register long x3 __asm__("x3") = d;
  register long x4 __asm__("x4") = e;
  register long x5 __asm__("x5") = f;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
  return x0;
#else
#error "There is no way into the kernel for this architecture here."
#endif
}

#define CALL1(number, a) call(number, (long)(a), 0, 0, 0, 0, 0)
#define CALL2(number, a, b) call(number, (long)(a), (long)(b), 0, 0, 0, 0)
#define CALL3(number, a, b, c) call(number, (long)(a), (long)(b), (long)(c), 0, 0, 0)

/* Each program defines this; what it returns is the exit status. */
static int run(int argc, char **argv, char **env);

/* The kernel leaves argc, argv and the environment on the stack, one after the other. */
__attribute__((noreturn, used)) static void enter(long *stack) {
  const long argc = stack[0];
  char **argv = (char **)(stack + 1);
  CALL1(SYS_exit_group, run((int)argc, argv, argv + argc + 1));
  __builtin_unreachable();
}

#if defined(__x86_64__)
__asm__(".globl _start\n_start:\n  mov %rsp, %rdi\n  and $-16, %rsp\n  call enter\n");
#elif defined(__aarch64__)
__asm__(".globl _start\n_start:\n  mov x0, sp\n  bl enter\n");
#endif
