/** Changed copies of inputs: bytes, ranges and words of a target, chosen by a seeded generator. */

/** Longest ordinary input, and longest one that repeats a piece to find what takes more than linear time. */
const ORDINARY_BYTES_MAX = 4096;
const REPEATED_BYTES_MAX = 65_536;
const INTERESTING = [0, 1, 0x0a, 0x20, 0x22, 0x27, 0x2f, 0x5c, 0x7f, 0x80, 0xc1, 0xc7, 0xdf, 0xfe, 0xff];

/** Numbers from 0 to below `end`, the same for the same seed (xorshift32). */
export type RandomBelow = (end: number) => number;

export function createRandom(seed: number): RandomBelow {
  let state = seed | 0 || 1;
  return (end) => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) % end;
  };
}

export const pick = <T>(from: readonly T[], random: RandomBelow): T => from[random(from.length)] as T;

interface MutationSource {
  /** Texts that mean something to the target. */
  readonly words: readonly string[];
  /** Inputs to take pieces of. */
  readonly corpus: readonly Buffer[];
  readonly random: RandomBelow;
}

type Mutation = (input: Buffer, source: MutationSource) => Buffer;

/** A range of the input, mostly a short one. */
function rangeOf(input: Buffer, random: RandomBelow): [start: number, end: number] {
  const start = random(input.length + 1);
  return [start, Math.min(input.length, start + 1 + random(random(4) === 0 ? 256 : 8))];
}

const replaced = (input: Buffer, [start, end]: readonly [number, number], by: Uint8Array): Buffer =>
  Buffer.concat([input.subarray(0, start), by, input.subarray(end)]);

function insert(input: Buffer, by: Uint8Array, random: RandomBelow): Buffer {
  const at = random(input.length + 1);
  return replaced(input, [at, at], by);
}

const MUTATIONS: readonly Mutation[] = [
  (input, { random }) => {
    const changed = Buffer.from(input);
    if (changed.length > 0) changed[random(changed.length)] = pick(INTERESTING, random);
    return changed;
  },
  (input, { random }) => {
    const changed = Buffer.from(input);
    const at = random(changed.length + 1);
    if (at < changed.length) changed[at] = (changed[at] as number) ^ (1 << random(8));
    return changed;
  },
  (input, { random }) => insert(input, Buffer.from([random(256)]), random),
  (input, { random }) => replaced(input, rangeOf(input, random), Buffer.alloc(0)),
  (input, { random }) => insert(input, input.subarray(...rangeOf(input, random)), random),
  (input, { random, words }) => (words.length === 0 ? input : insert(input, Buffer.from(pick(words, random)), random)),
  (input, { random, words }) =>
    words.length === 0 ? input : replaced(input, rangeOf(input, random), Buffer.from(pick(words, random))),
  (input, { random, corpus }) => {
    const other = pick(corpus, random);
    return Buffer.concat([input.subarray(0, random(input.length + 1)), other.subarray(random(other.length + 1))]);
  },
  (input, { random, corpus }) => {
    const other = pick(corpus, random);
    return insert(input, other.subarray(...rangeOf(other, random)), random);
  },
];

/** One piece of the input, repeated. */
function repeated(input: Buffer, random: RandomBelow): Buffer {
  const [start, end] = rangeOf(input, random);
  const piece = input.subarray(start, end);
  if (piece.length === 0) return input;
  const times = Math.floor(REPEATED_BYTES_MAX / (2 * piece.length));
  return replaced(input, [start, start], Buffer.concat(new Array<Buffer>(times).fill(piece)));
}

/** A changed copy of an input of the corpus. */
export function mutate(source: MutationSource): Buffer {
  const { random, corpus } = source;
  let input = pick(corpus, random);
  for (let left = 1 + random(5); left > 0; left--) input = pick(MUTATIONS, random)(input, source);
  input = input.subarray(0, ORDINARY_BYTES_MAX);
  return random(500) === 0 ? repeated(input, random) : input;
}
