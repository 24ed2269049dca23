import { type Coarse, describeCoarse } from '../sandbox/coarse-masks.ts';
import { showLine } from '../shown-text.ts';

/** Directories that one result tells to be hidden whole; an agent can make as many as it likes. */
const TOLD_MAX = 3;

/** What a call is told of directories that its command could not see though no rule names them. */
export function coarseWarnings(coarse: readonly Coarse[]): string[] {
  const told = coarse.slice(0, TOLD_MAX).map((it) => showLine(describeCoarse(it)));
  const more = coarse.length - TOLD_MAX;
  return more > 0 ? [...told, `${more} more directories are hidden whole; see \`ringfence status\``] : told;
}
