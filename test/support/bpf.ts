/** Interprets classic BPF like seccomp, so that a filter can be tested with any call, even ones that no program makes. */

export interface Call {
  readonly nr: number;
  /** AUDIT_ARCH_*; the default is x86_64. */
  readonly arch?: number;
  readonly args?: readonly (number | bigint)[];
}

export const ARCH = { x86_64: 0xc000003e, i386: 0x40000003, aarch64: 0xc00000b7 };

const ERRNOS: Record<number, string> = { 1: 'EPERM', 38: 'ENOSYS', 95: 'EOPNOTSUPP', 97: 'EAFNOSUPPORT' };
export const RETURN = 0x06;

interface Step {
  readonly code: number;
  readonly jt: number;
  readonly jf: number;
  readonly k: number;
}

export const decode = (filter: Buffer): Step[] =>
  Array.from({ length: filter.length / 8 }, (_, i) => ({
    code: filter.readUInt16LE(8 * i),
    jt: filter.readUInt8(8 * i + 2),
    jf: filter.readUInt8(8 * i + 3),
    k: filter.readUInt32LE(8 * i + 4),
  }));

/** Encodes `struct seccomp_data`. */
function dataOf({ nr, arch = ARCH.x86_64, args = [] }: Call): Buffer {
  const data = Buffer.alloc(64);
  data.writeUInt32LE(nr >>> 0, 0);
  data.writeUInt32LE(arch, 4);
  for (const [i, arg] of args.entries()) data.writeBigUInt64LE(BigInt.asUintN(64, BigInt(arg)), 16 + 8 * i);
  return data;
}

/** Whether a jump is taken; throws on an instruction that the kernel's precomputation of allowed calls can't handle. */
function holds(code: number, a: number, k: number): boolean {
  if (code === 0x15) return a === k;
  if (code === 0x35) return a >= k;
  if (code === 0x45) return (a & k) !== 0;
  throw new Error(`unexpected instruction 0x${code.toString(16)}`);
}

function verdictOf(k: number): string {
  if (k === 0x7fff0000) return 'allow';
  if (k === 0x80000000) return 'kill';
  if (k === 0x7fc00000) return 'tell';
  return ERRNOS[k - 0x00050000] ?? `unknown verdict 0x${k.toString(16)}`;
}

/** The verdict on a call: `allow`, `kill`, `tell` (a listener) or the name of its errno. */
export function judge(filter: Buffer, call: Call): string {
  const program = decode(filter);
  const data = dataOf(call);
  let a = 0;
  for (let at = 0; ; at++) {
    const { code, k, jt, jf } = program[at] ?? { code: -1, k: 0, jt: 0, jf: 0 };
    if (code === RETURN) return verdictOf(k);
    if (code === 0x20) a = data.readUInt32LE(k);
    else if (code === 0x54) a = (a & k) >>> 0;
    else at += holds(code, a, k) ? jt : jf;
  }
}
