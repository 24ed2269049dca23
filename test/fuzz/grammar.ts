/** Parts of a grammar: functions that make one text after another of a seeded generator. */
import { pick, type RandomBelow } from './mutations.ts';

export type Grammar = (random: RandomBelow) => string;

/** One of these texts; one that is named twice comes twice as often. */
export const word =
  (...texts: readonly string[]): Grammar =>
  (random) =>
    pick(texts, random);

/** Up to `most` texts of a part. */
export const some =
  (part: Grammar, most: number) =>
  (random: RandomBelow): string[] =>
    Array.from({ length: random(most + 1) }, () => part(random));
