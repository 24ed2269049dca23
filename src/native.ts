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

interface Ffi {
  dlopen(path: null, symbols: Record<string, Signature>): { functions: Record<string, Native> };
}
