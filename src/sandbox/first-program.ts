/** What the programs have in common that stand before a command, hand a descriptor out of its sandbox and become it: x86_64. */
import { callOf } from './syscall-program.ts';

/** A number that no descriptor of a command's start has. */
export const LISTENER_FD = 100;

/** Of a `struct msghdr`, a `struct iovec`, a control message with one descriptor. */
export const MESSAGE_BYTES = 56;
export const VECTOR_BYTES = 16;
export const CONTROL_BYTES = 24;

const SOL_SOCKET = 1;
const SCM_RIGHTS = 1;
const EXECVE = 59;

export const MOVE_RAX_TO_RDI = Buffer.from([0x48, 0x89, 0xc7]);

/** What loads one argument of a call. */
const LOAD_BYTES = 10;

/** A call whose first argument is in its register already. */
export const callWithRdi = (call: number, second: number): Buffer => callOf(call, 0, second).subarray(LOAD_BYTES);

/** Numbers of eight bytes. */
export function words(...values: number[]): Buffer {
  const bytes = Buffer.alloc(8 * values.length);
  for (const [i, value] of values.entries()) bytes.writeBigUInt64LE(BigInt(value), 8 * i);
  return bytes;
}

/** The control message that passes a descriptor. */
export function rightsOf(fd: number): Buffer {
  const control = Buffer.alloc(CONTROL_BYTES);
  control.writeBigUInt64LE(20n, 0); // Its length without padding: 16 bytes of header, one descriptor.
  control.writeUInt32LE(SOL_SOCKET, 8);
  control.writeUInt32LE(SCM_RIGHTS, 12);
  control.writeUInt32LE(fd, 16);
  return control;
}

/** execve(argv[1], &argv[1], envp), all found on the stack as the kernel left it. */
export const becomeNext = (): Buffer =>
  Buffer.concat([
    Buffer.from([0x48, 0x8b, 0x7c, 0x24, 0x10]), // mov rdi, [rsp+16]
    Buffer.from([0x48, 0x8d, 0x74, 0x24, 0x10]), // lea rsi, [rsp+16]
    Buffer.from([0x48, 0x8b, 0x04, 0x24]), // mov rax, [rsp]
    Buffer.from([0x48, 0x8d, 0x54, 0xc4, 0x10]), // lea rdx, [rsp+rax*8+16]
    callOf(EXECVE),
  ]);
