/** Calls functions of the C library that Node lacks, through its FFI. */

type Signature = { readonly arguments: readonly string[]; readonly return: string };
type Native = (...values: (number | bigint | Buffer)[]) => number;

/** Undefined if FFI is not available: other systems, a Node without it, or --permission. Never throws. */
export function loadNative(name: string, signature: Signature): Native | undefined {
  if (process.platform !== 'linux' || !['x64', 'arm64'].includes(process.arch)) return undefined;
  const { emitWarning } = process;
  // Hides the warning that FFI is experimental: a reader of the daemon's log can't act on it.
  process.emitWarning = () => {};
  try {
    const ffi = process.getBuiltinModule('node:ffi') as unknown as Ffi;
    return ffi.dlopen(null, { [name]: signature }).functions[name];
  } catch {
    return undefined; // ERR_UNKNOWN_BUILTIN_MODULE: started with --no-experimental-ffi.
  } finally {
    process.emitWarning = emitWarning;
  }
}

interface Ffi {
  dlopen(path: null, symbols: Record<string, Signature>): { functions: Record<string, Native> };
}
