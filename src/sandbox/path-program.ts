/**
 * The first program of a command whose calls on paths are told to its host (path-filter.ts): it puts itself under that filter,
 * hands the listener to the host and becomes the command, which has neither the listener nor the way to the host.
 * As listener-program.ts it checks nothing: without a listener it is a command of which nothing is told.
 */
import {
  becomeNext,
  CONTROL_BYTES,
  callWithRdi,
  LISTENER_FD,
  MESSAGE_BYTES,
  MOVE_RAX_TO_RDI,
  rightsOf,
  VECTOR_BYTES,
  words,
} from './first-program.ts';
import { pathFilter } from './path-filter.ts';
import { GREETING_BYTES, READS_AT } from './path-greeting.ts';
import { callOf, DATA_BASE, toElf } from './syscall-program.ts';

const SYS = { close: 3, dup2: 33, sendmsg: 46, exit: 60, prctl: 157, seccomp: 317 } as const;
const PR_SET_NO_NEW_PRIVS = 38;
const SECCOMP_SET_MODE_FILTER = 1;
/** Who was told of waits for nothing but the answer, or its end: no call fails because a signal came. */
const NEW_LISTENER_WAIT_KILLABLE = 0x08 | 0x20;
const MSG_NOSIGNAL = 0x4000;

const FPROG_BYTES = 16;

/** The program; it has inherited a socket to its host, and itself. */
export function pathProgram({ line, self }: { readonly line: number; readonly self: number }): Buffer {
  const { data, at } = layOut();
  const code = Buffer.concat([
    // bubblewrap did; whoever tries this out without it did not.
    callOf(SYS.prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
    filterOf(at),
    MOVE_RAX_TO_RDI,
    callWithRdi(SYS.dup2, LISTENER_FD),
    // Or it would wait for itself where the host is gone: what is left is closed by the call that is told.
    callWithRdi(SYS.close, 0),
    callOf(SYS.sendmsg, line, at.message, MSG_NOSIGNAL),
    callOf(SYS.close, line),
    callOf(SYS.close, LISTENER_FD),
    callOf(SYS.close, self),
    becomeNext(1),
    callOf(SYS.exit, 127),
  ]);
  return toElf(code, data);
}

/** seccomp(): the filter is the one that the variable says. */
const filterOf = (at: { readonly vector: number; readonly fprogs: number }): Buffer =>
  Buffer.concat([
    Buffer.from([0x48, 0x8b, 0x04, 0x24]), // mov rax, [rsp]
    Buffer.from([0x48, 0x8b, 0x44, 0xc4, 0x10]), // mov rax, [rsp+rax*8+16]: the first variable
    Buffer.from([0x48, 0x89, 0x04, 0x25, ...u32(at.vector)]), // mov [vector], rax
    Buffer.from([0x0f, 0xb6, 0x50, READS_AT]), // movzx edx, byte [rax+READS_AT]
    Buffer.from([0x83, 0xe2, 0x01]), // and edx, 1
    Buffer.from([0xc1, 0xe2, 0x04]), // shl edx, 4
    Buffer.from([0x81, 0xc2, ...u32(at.fprogs)]), // add edx, fprogs
    Buffer.from([0xbf, ...u32(SECCOMP_SET_MODE_FILTER)]), // mov edi
    Buffer.from([0xbe, ...u32(NEW_LISTENER_WAIT_KILLABLE)]), // mov esi
    callOf(SYS.seccomp),
  ]);

const u32 = (value: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
};

/** Constants, and where they lie; where the greeting is, only the program finds out. */
function layOut(): { data: Buffer; at: { message: number; vector: number; fprogs: number } } {
  const filters = [pathFilter({ reads: false }), pathFilter({ reads: true })];
  const message = DATA_BASE;
  const vector = message + MESSAGE_BYTES;
  const control = vector + VECTOR_BYTES;
  const fprogs = control + CONTROL_BYTES;
  const heads: Buffer[] = [];
  let next = fprogs + FPROG_BYTES * filters.length;
  for (const it of filters) {
    heads.push(words(it.length / 8, next));
    next += it.length;
  }
  const fixed = [words(0, 0, vector, 1, control, CONTROL_BYTES, 0), words(0, GREETING_BYTES), rightsOf(LISTENER_FD)];
  return { data: Buffer.concat([...fixed, ...heads, ...filters]), at: { message, vector, fprogs } };
}
