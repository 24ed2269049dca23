import type { ToolContext } from '../tool.ts';
import { pathOf, type Repository } from './repository.ts';

/** Names judged between two checks of the abort signal; about 5 ms of work, in a thread that others' commands wait for, too. */
const NAMES_PER_BREATH = 500;

export interface RefusedRequest {
  readonly repository: Repository;
  /** Tests a path relative to the workspace, as `refusedBelow` gives it. */
  readonly isRefused: (path: string) => boolean;
}

/** The names of a repository that are refused. */
export async function refusedAmong(
  names: readonly string[],
  ctx: ToolContext,
  { repository, isRefused }: RefusedRequest,
): Promise<ReadonlySet<string>> {
  const refused = new Set<string>();
  for (const [at, name] of names.entries()) {
    if (at % NAMES_PER_BREATH === NAMES_PER_BREATH - 1) await ctx.breathe();
    if (isRefused(pathOf(repository, name))) refused.add(name);
  }
  return refused;
}
