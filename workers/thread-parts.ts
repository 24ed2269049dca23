/** The parts of tools' contexts that capabilities bring, made once in each thread. */
import type { Powers } from '../src/base/powers.ts';
import type { ContextParts, ThreadTier } from './context/context-options.ts';
import { databaseParts } from './duckdb/databases-by-kind.ts';

const openers: readonly ((setup: ThreadTier, powers: Powers) => ContextParts)[] = [
  // A line for each capability.
  databaseParts,
];

export const openParts = (setup: ThreadTier, powers: Powers): ContextParts =>
  new Map(openers.flatMap((open) => [...open(setup, powers)]));
