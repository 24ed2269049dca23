import { type CoarseMask, describeCoarse } from '../sandbox/coarse-masks.ts';
import { showLine } from '../text/shown-text.ts';

/** The most directories that one result names as hidden whole; an agent can make any number of them. */
const TOLD_MAX = 3;

/** Warnings about directories that were hidden from a command although no rule names them. */
export function coarseWarnings(coarse: readonly CoarseMask[]): string[] {
  const told = coarse.slice(0, TOLD_MAX).map((it) => showLine(describeCoarse(it)));
  const more = coarse.length - TOLD_MAX;
  return more > 0 ? [...told, `${more} more directories are hidden whole; see \`ringfence status\``] : told;
}
