/**
 * A program that makes system calls, one after the other, and tells what came of each: a static x86_64 ELF file,
 * assembled here. What a sandbox lets through is asked of the kernel itself, with no interpreter, library or tool that a
 * machine may lack, and with calls that no shell can make (AF_VSOCK, ptrace, TIOCSTI).
 */

/** A number, what an earlier call gave, bytes to point to, or room to point to whose content is told. */
type Argument = number | { readonly resultOf: string } | { readonly data: Uint8Array } | { readonly roomBytes: number };

interface Call {
  readonly as: string;
  readonly call: number;
  readonly args: readonly Argument[];
}

/** `child` is done by a new process, which then ends; the result is its pid. */
interface Fork {
  readonly as: string;
  readonly child: readonly Call[];
}

export type Step = Call | Fork;

/** What a program told. */
export interface Report {
  /** What the call gave: a negative number is an errno, as in the kernel. */
  result(as: string): number;
  /** The bytes that it wrote into its room, as text. */
  text(as: string): string;
}

const TEXT_BASE = 0x400000;
export const DATA_BASE = 0x10000000;
const PAGE = 4096;
const ELF_HEADER_BYTES = 64;
const PROGRAM_HEADER_BYTES = 56;
const HEADERS_BYTES = ELF_HEADER_BYTES + 2 * PROGRAM_HEADER_BYTES;

const SYS = { read: 0, write: 1, fork: 57, exit: 60 } as const;

/** The instructions of a call all of whose arguments are numbers. */
export const callOf = (call: number, ...args: number[]): Buffer =>
  Buffer.concat([
    ...args.flatMap((arg, i) => [Buffer.from(REGISTERS[i]?.immediate ?? []), u64(arg)]),
    Buffer.from(RAX_IMMEDIATE),
    u64(call),
    Buffer.from(SYSCALL),
  ]);

/** Opcodes that load a register from the eight bytes that follow, and from an absolute address, in the order of arguments. */
const REGISTERS = [
  { immediate: [0x48, 0xbf], memory: [0x48, 0x8b, 0x3c, 0x25] }, // rdi
  { immediate: [0x48, 0xbe], memory: [0x48, 0x8b, 0x34, 0x25] }, // rsi
  { immediate: [0x48, 0xba], memory: [0x48, 0x8b, 0x14, 0x25] }, // rdx
  { immediate: [0x49, 0xba], memory: [0x4c, 0x8b, 0x14, 0x25] }, // r10
  { immediate: [0x49, 0xb8], memory: [0x4c, 0x8b, 0x04, 0x25] }, // r8
  { immediate: [0x49, 0xb9], memory: [0x4c, 0x8b, 0x0c, 0x25] }, // r9
] as const;
const RAX_IMMEDIATE = [0x48, 0xb8];
const RAX_TO_MEMORY = [0x48, 0x89, 0x04, 0x25];
const SYSCALL = [0x0f, 0x05];
const JUMP_UNLESS_ZERO = [0x48, 0x85, 0xc0, 0x0f, 0x85];

/** Where everything lies from DATA_BASE on: results, then rooms, which are told, then constants. */
interface Layout {
  readonly results: ReadonlyMap<string, number>;
  readonly places: ReadonlyMap<Argument, number>;
  /** Of the part that is told. */
  readonly reportBytes: number;
  readonly data: Buffer;
}

const callsOf = (steps: readonly Step[]): Call[] => steps.flatMap((it) => ('child' in it ? it.child : [it]));

function layOut(steps: readonly Step[]): Layout {
  const names = [...steps, ...callsOf(steps.filter((it) => 'child' in it))].map((it) => it.as);
  const args = callsOf(steps).flatMap((it) => it.args);
  const places = new Map<Argument, number>();
  let at = 8 * names.length;
  for (const it of args) {
    if (typeof it !== 'object' || !('roomBytes' in it)) continue;
    places.set(it, at);
    at += it.roomBytes;
  }
  const reportBytes = at;
  const constants: Uint8Array[] = [];
  for (const it of args) {
    if (typeof it !== 'object' || !('data' in it)) continue;
    places.set(it, at);
    constants.push(it.data);
    at += it.data.length;
  }
  const results = new Map(names.map((name, i) => [name, 8 * i]));
  return { results, places, reportBytes, data: Buffer.concat([Buffer.alloc(reportBytes), ...constants]) };
}

const u64 = (value: number): Buffer => {
  const bytes = Buffer.alloc(8);
  bytes.writeBigInt64LE(BigInt(value));
  return bytes;
};
const u32 = (value: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
};

function assembleCall({ as, call, args }: Call, { results, places }: Layout): Buffer {
  const loads = args.flatMap((arg, i) => {
    const { immediate, memory } = REGISTERS[i] as (typeof REGISTERS)[number];
    if (typeof arg === 'number') return [Buffer.from(immediate), u64(arg)];
    if ('resultOf' in arg) return [Buffer.from(memory), u32(DATA_BASE + (results.get(arg.resultOf) as number))];
    return [Buffer.from(immediate), u64(DATA_BASE + (places.get(arg) as number))];
  });
  return Buffer.concat([...loads, Buffer.from(RAX_IMMEDIATE), u64(call), Buffer.from(SYSCALL), keep(as, results)]);
}

const keep = (as: string, results: Layout['results']): Buffer =>
  Buffer.concat([Buffer.from(RAX_TO_MEMORY), u32(DATA_BASE + (results.get(as) ?? 0))]);

function assembleStep(step: Step, layout: Layout): Buffer {
  if (!('child' in step)) return assembleCall(step, layout);
  const end: Call = { as: step.as, call: SYS.exit, args: [0] };
  const child = Buffer.concat([...step.child, end].map((it) => assembleCall(it, layout)));
  const fork = assembleCall({ as: step.as, call: SYS.fork, args: [] }, layout);
  return Buffer.concat([fork, Buffer.from(JUMP_UNLESS_ZERO), u32(child.length), child]);
}

/**
 * The ELF file. It does the steps, tells all results on descriptor 1, waits for the end of descriptor 0 (so that it can be
 * looked at from outside), and ends with 0.
 */
export function assembleProgram(steps: readonly Step[]): Buffer {
  const layout = layOut(steps);
  // Their results are kept in the first place after it was told, where nobody reads them.
  const last = [
    { as: '', call: SYS.write, args: [1, DATA_BASE, layout.reportBytes] },
    { as: '', call: SYS.read, args: [0, DATA_BASE, 1] },
    { as: '', call: SYS.exit, args: [0] },
  ];
  return toElf(Buffer.concat([...steps, ...last].map((it) => assembleStep(it, layout))), layout.data);
}

/** A file of code, which starts with its first instruction, and of data, which lies at DATA_BASE. */
export function toElf(code: Buffer, data: Buffer): Buffer {
  const textBytes = HEADERS_BYTES + code.length;
  const dataOffset = Math.ceil(textBytes / PAGE) * PAGE;
  return Buffer.concat([
    elfHeader(),
    programHeader({ flags: 5, offset: 0, address: TEXT_BASE, bytes: textBytes }),
    programHeader({ flags: 6, offset: dataOffset, address: DATA_BASE, bytes: data.length }),
    code,
    Buffer.alloc(dataOffset - textBytes),
    data,
  ]);
}

function elfHeader(): Buffer {
  const header = Buffer.alloc(ELF_HEADER_BYTES);
  header.set([0x7f, 0x45, 0x4c, 0x46, 2, 1, 1]); // ELF, 64 bits, little-endian, version 1
  header.writeUInt16LE(2, 16); // An executable
  header.writeUInt16LE(62, 18); // for x86_64
  header.writeUInt32LE(1, 20);
  header.writeBigUInt64LE(BigInt(TEXT_BASE + HEADERS_BYTES), 24); // that starts here
  header.writeBigUInt64LE(BigInt(ELF_HEADER_BYTES), 32); // with its program headers
  header.writeUInt16LE(ELF_HEADER_BYTES, 52);
  header.writeUInt16LE(PROGRAM_HEADER_BYTES, 54);
  header.writeUInt16LE(2, 56);
  return header;
}

function programHeader(it: { flags: number; offset: number; address: number; bytes: number }): Buffer {
  const fields = [it.offset, it.address, it.address, it.bytes, it.bytes, PAGE];
  return Buffer.concat([u32(1), u32(it.flags), ...fields.map(u64)]);
}

/** How long a whole answer of the program is, in bytes. */
export const reportBytesOf = (steps: readonly Step[]): number => layOut(steps).reportBytes;

/** What the program of `steps` told; undefined when it is not a whole answer. */
export function readReport(steps: readonly Step[], told: Buffer): Report | undefined {
  const { results, places, reportBytes } = layOut(steps);
  if (told.length !== reportBytes) return undefined;
  const result = (as: string) => Number(told.readBigInt64LE(results.get(as) as number));
  const roomOf = (as: string) =>
    callsOf(steps)
      .find((it) => it.as === as)
      ?.args.find((it) => places.has(it) && typeof it === 'object' && 'roomBytes' in it);
  return {
    result,
    text(as) {
      const from = places.get(roomOf(as) as Argument) as number;
      return told.toString('utf8', from, from + Math.max(0, result(as)));
    },
  };
}
