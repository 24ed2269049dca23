/** Functions of the C library that Node has no call for, by its FFI. */

type Signature = { readonly arguments: readonly string[]; readonly return: string };
type Native = (...values: (number | bigint | Buffer)[]) => number;

/** Undefined where it can't be had: other systems, a Node without FFI, one that may not use it (--permission). Never throws. */
export function loadNative(name: string, signature: Signature): Native | undefined {
  if (process.platform !== 'linux' || !['x64', 'arm64'].includes(process.arch)) return undefined;
  const { emitWarning } = process;
  // That FFI is experimental is for us to know; who reads the daemon's log can do nothing about it.
  process.emitWarning = () => {};
  try {
    const ffi = process.getBuiltinModule('node:ffi') as unknown as Ffi;
    return ffi.dlopen(null, { [name]: signature }).functions[name];
  } catch {
    return undefined; // Node 24, or --no-experimental-ffi.
  } finally {
    process.emitWarning = emitWarning;
  }
}

/** Where the bytes of `buffer` lie, for a structure that points to them. Only for memory that stays: held on to, and not of a pool that is used elsewhere. */
export function addressOf(buffer: Buffer): bigint {
  return (process.getBuiltinModule('node:ffi') as unknown as Ffi).getRawPointer(buffer);
}

/** Strings as C has them: pointers, a null one last, to bytes that each end with a NUL; the memory is that of the buffer. */
export function toCStrings(strings: readonly string[]): Buffer {
  const bytes = strings.map((it) => Buffer.from(`${it}\0`));
  const pointersBytes = 8 * (strings.length + 1);
  const memory = Buffer.alloc(pointersBytes + bytes.reduce((sum, it) => sum + it.length, 0));
  const base = addressOf(memory);
  let at = pointersBytes;
  for (const [i, it] of bytes.entries()) {
    memory.writeBigUInt64LE(base + BigInt(at), 8 * i);
    at += it.copy(memory, at);
  }
  return memory;
}

interface Ffi {
  getRawPointer(memory: Buffer): bigint;
  dlopen(path: null, symbols: Record<string, Signature>): { functions: Record<string, Native> };
}
