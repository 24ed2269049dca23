/** The inputs that are kept: small ones, each named after the outcome that it reaches. */
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { FuzzCount } from './fuzz.ts';
import { CORPORA } from './input-slot.ts';
import { FUZZ_TARGETS, type FuzzTarget } from './targets.ts';

/** Inputs kept for each target, and the size of each after it was made smaller. */
const KEPT_MAX = 32;
const KEPT_BYTES_MAX = 600;
const NAME_CHARS_MAX = 72;

export interface KeptInput {
  readonly name: string;
  readonly input: Buffer;
}

/** The kept inputs of a target. */
export function keptInputs(target: string): KeptInput[] {
  const folder = join(CORPORA, target);
  if (!existsSync(folder)) return [];
  return readdirSync(folder).map((name) => ({ name, input: readFileSync(join(folder, name)) }));
}

/** An outcome as a file name. */
const nameOf = (outcome: string): string =>
  outcome
    .toLowerCase()
    .replace(/\*/g, 'star')
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-|-$/g, '')
    .slice(0, NAME_CHARS_MAX) || 'nothing';

/** A smaller input with the same outcome: pieces are left out, ever smaller ones, while the outcome stays. */
export async function minimise(input: Buffer, run: FuzzTarget['run']): Promise<Buffer> {
  const outcome = await run(input);
  let least = input;
  for (let size = Math.ceil(input.length / 2); size >= 1; size = Math.floor(size / 2)) {
    for (let at = 0; at < least.length; ) {
      const shorter = Buffer.concat([least.subarray(0, at), least.subarray(at + size)]);
      if ((await run(shorter)) === outcome) least = shorter;
      else at += size;
    }
  }
  return least;
}

/** Spread evenly over a list, at most `most` of its entries. */
const spread = <T>(list: readonly T[], most: number): T[] =>
  list.filter((_, at) => Math.floor((at * most) / list.length) !== Math.floor(((at - 1) * most) / list.length));

/** Writes inputs of outcomes that no kept input of the target reaches, until it has its fill. Returns how many. */
export async function keep({ target, outcomes }: FuzzCount): Promise<number> {
  const { run } = FUZZ_TARGETS[target] as FuzzTarget;
  const known = new Set<string>();
  const kept = keptInputs(target);
  for (const it of kept) known.add(nameOf(await run(it.input)));
  const fresh = [...outcomes].filter(([outcome]) => !known.has(nameOf(outcome))).sort(([a], [b]) => (a < b ? -1 : 1));
  const folder = join(CORPORA, target);
  mkdirSync(folder, { recursive: true });
  let written = 0;
  for (const [outcome, input] of spread(fresh, Math.max(0, KEPT_MAX - kept.length))) {
    const small = await minimise(Buffer.from(input), run);
    const path = join(folder, nameOf(outcome));
    if (small.length > KEPT_BYTES_MAX || existsSync(path)) continue;
    writeFileSync(path, small);
    written += 1;
  }
  return written;
}
