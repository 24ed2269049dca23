/** What the fuzzer tries: one function a target, which throws if a law of the target is broken by the input. */
import { binaryTargets } from './binary-targets.ts';
import { connectorTarget } from './connector-target.ts';
import { globTarget } from './glob-target.ts';
import { httpTarget } from './http-target.ts';
import type { RandomBelow } from './mutations.ts';
import { pageTarget } from './page-target.ts';
import { streamTargets } from './stream-targets.ts';
import { textTargets } from './text-targets.ts';

export interface FuzzTarget {
  /** Inputs to begin with, beside the files of test/corpora/<name>. */
  readonly seeds: readonly (string | Uint8Array)[];
  /** Texts that mean something to the target, to be put into inputs. */
  readonly words: readonly string[];
  /** Makes an input by the target's grammar, for what changed copies seldom reach. */
  readonly generate?: (random: RandomBelow) => string;
  /**
   * Tries one input. Returns what came of it in a few words: inputs with a new outcome are kept to be changed further.
   * Throws if a law is broken.
   */
  readonly run: (input: Buffer) => string | Promise<string>;
}

export const FUZZ_TARGETS: Readonly<Record<string, FuzzTarget>> = {
  ...binaryTargets,
  ...textTargets,
  connectors: connectorTarget,
  globs: globTarget,
  http: httpTarget,
  pages: pageTarget,
  ...streamTargets,
};
