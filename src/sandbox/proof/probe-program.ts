/**
 * Encodes and decodes what native/probe.c reads and writes: its steps, the memory that they point into, and their
 * results. All numbers are 64-bit and little-endian, as on both architectures.
 */
import { type Arch, type CallName, callNumber } from '../syscalls.ts';

/** A number, the result of an earlier call, a pointer to bytes, or a pointer to a buffer that the report contains. */
type SyscallArgument =
  | number
  | { readonly resultOf: string }
  | { readonly data: Uint8Array }
  | { readonly roomBytes: number };

export interface ProbeSyscall {
  readonly as: string;
  readonly call: CallName;
  readonly args: readonly SyscallArgument[];
}

/** A new process makes the calls in `child` and then ends; the result is its pid. */
interface ProbeFork {
  readonly as: string;
  readonly child: readonly ProbeSyscall[];
}

export type ProbeStep = ProbeSyscall | ProbeFork;

/** The program's answer. */
export interface ProbeReport {
  /** Result of the call: a negative number is an errno, as in the kernel. */
  result(as: string): number;
  /** The bytes that the call wrote into its buffer, as text. */
  text(as: string): string;
}

/** Constants of native/probe.c. */
const FORK = -1;
const [NUMBER, RESULT_OF_STEP, OFFSET_IN_MEMORY] = [0, 1, 2];
const ARGUMENTS = 6;
const STEPS_MAX = 256;
const MEMORY_MAX = 65_536;

/** The steps without nesting, as the program reads them: a child's calls follow their fork. */
const flat = (steps: readonly ProbeStep[]): ProbeStep[] =>
  steps.flatMap((it) => ('child' in it ? [it, ...it.child] : [it]));

/** Memory layout: buffers come first, since the report contains them; constants follow. */
interface MemoryLayout {
  readonly steps: readonly ProbeStep[];
  readonly offsets: ReadonlyMap<SyscallArgument, number>;
  readonly roomBytes: number;
  readonly memory: Buffer;
}

function layOut(nested: readonly ProbeStep[]): MemoryLayout {
  const steps = flat(nested);
  const args = steps.flatMap((it) => ('child' in it ? [] : it.args));
  const offsets = new Map<SyscallArgument, number>();
  const parts: Uint8Array[] = [];
  let end = 0;
  const place = (arg: SyscallArgument, bytes: Uint8Array) => {
    offsets.set(arg, end);
    parts.push(bytes);
    end += bytes.length;
  };
  for (const it of args) if (typeof it === 'object' && 'roomBytes' in it) place(it, Buffer.alloc(it.roomBytes));
  const roomBytes = end;
  for (const it of args) if (typeof it === 'object' && 'data' in it) place(it, it.data);
  return { steps, offsets, roomBytes, memory: Buffer.concat(parts) };
}

const indexOf = (steps: readonly ProbeStep[], as: string): number => steps.findIndex((it) => it.as === as);

function toWords(arg: SyscallArgument, { steps, offsets }: MemoryLayout): [kind: number, value: number] {
  if (typeof arg === 'number') return [NUMBER, arg];
  if ('resultOf' in arg) return [RESULT_OF_STEP, indexOf(steps, arg.resultOf)];
  return [OFFSET_IN_MEMORY, offsets.get(arg) as number];
}

function encodeStep(step: ProbeStep, layout: MemoryLayout, arch: Arch): number[] {
  const isFork = 'child' in step;
  const number = isFork ? FORK : callNumber(step.call, arch);
  if (number === undefined) throw new RangeError(`${arch} has no call of the step ${step.as}`);
  const args = isFork ? [step.child.length] : step.args;
  const words = Array.from({ length: ARGUMENTS }, (_, i) => toWords(args[i] ?? 0, layout));
  return [number, ...words.map(([kind]) => kind), ...words.map(([, value]) => value)];
}

/** Encodes steps as the program's input. */
export function encodeSteps(nested: readonly ProbeStep[], arch: Arch): Buffer {
  const layout = layOut(nested);
  const { steps, memory, roomBytes } = layout;
  if (steps.length > STEPS_MAX || memory.length > MEMORY_MAX) throw new RangeError('more than native/probe.c takes');
  const words = [steps.length, memory.length, roomBytes, ...steps.flatMap((it) => encodeStep(it, layout, arch))];
  return Buffer.concat([Buffer.from(BigInt64Array.from(words, BigInt).buffer), memory]);
}

/** Length of a complete report in bytes. */
export function reportBytesOf(nested: readonly ProbeStep[]): number {
  const { steps, roomBytes } = layOut(nested);
  return 8 * steps.length + roomBytes;
}

/** Decodes the report on `nested`; undefined if it is incomplete. */
export function readReport(nested: readonly ProbeStep[], told: Buffer): ProbeReport | undefined {
  const { steps, offsets, roomBytes } = layOut(nested);
  if (told.length !== 8 * steps.length + roomBytes) return undefined;
  const result = (as: string) => Number(told.readBigInt64LE(8 * indexOf(steps, as)));
  const roomOf = (as: string) => {
    const step = steps[indexOf(steps, as)] as ProbeSyscall;
    return step.args.find((it) => typeof it === 'object' && 'roomBytes' in it) as SyscallArgument;
  };
  return {
    result,
    text(as) {
      const from = 8 * steps.length + (offsets.get(roomOf(as)) as number);
      return told.toString('utf8', from, from + Math.max(0, result(as)));
    },
  };
}
