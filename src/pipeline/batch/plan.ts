/** Orders the calls of a batch by their dependencies, and refuses a batch whose dependencies can't be met before any call runs. */

import type { BatchCall } from '../../base/call.ts';
import { ToolError } from '../../base/errors.ts';
import { referencedIds } from './reference.ts';

export interface BatchPlan {
  /** Maps a call id to the calls that must succeed before it begins: `dependsOn` and the calls that its references name. */
  readonly needs: ReadonlyMap<string, ReadonlySet<string>>;
  /**
   * Maps a call id to the earlier calls that must end before it begins, even if they fail: calls of tools that its
   * tool usually follows.
   */
  readonly follows: ReadonlyMap<string, ReadonlySet<string>>;
  /** Call ids by the length of the longest dependency chain before them; calls of one level could run at once. */
  readonly levels: readonly (readonly string[])[];
}

/** The calls that must end before a call begins. */
export const waitsFor = ({ needs, follows }: Omit<BatchPlan, 'levels'>, id: string): ReadonlySet<string> =>
  new Set([...(needs.get(id) ?? []), ...(follows.get(id) ?? [])]);

export interface PlanParts {
  /** The tools that calls of this tool usually follow. */
  followsOf(tool: string): readonly string[];
  /** The tool's name; `tool` may be an alias. */
  canonical(tool: string): string;
}

/** Throws INPUT_INVALID for an id that is used twice, is unknown or depends on itself; DEPENDENCY_CYCLE naming the calls of a cycle. */
export function planBatch(calls: readonly BatchCall[], parts: PlanParts): BatchPlan {
  const ids = new Set<string>();
  for (const { id } of calls) {
    if (ids.has(id)) throw invalid(`two calls have the id \`${id}\``);
    ids.add(id);
  }
  const needs = new Map(calls.map((call) => [call.id, needsOf(call, ids)]));
  const cycle = cycleIn(needs);
  if (cycle) {
    throw new ToolError('DEPENDENCY_CYCLE', `these calls wait for each other: ${cycle.join(' → ')}`, {
      layer: 'validate',
      details: { cycle },
    });
  }
  const follows = followsIn(calls, needs, parts);
  return { needs, follows, levels: levelsOf(calls, needs, follows) };
}

const invalid = (message: string) => new ToolError('INPUT_INVALID', message, { layer: 'validate' });

function needsOf({ id, input, dependsOn = [] }: BatchCall, ids: ReadonlySet<string>): Set<string> {
  const referenced = referencedIds(input);
  const needs = new Set([...dependsOn, ...referenced]);
  for (const need of needs) {
    if (need === id) throw invalid(`call \`${id}\` ${referenced.has(need) ? 'refers to' : 'depends on'} itself`);
    if (ids.has(need)) continue;
    const how = referenced.has(need)
      ? `refers to \`${need}\`, which is no call of this batch; text that only looks like a reference is written \`$\${…}\``
      : `depends on \`${need}\`, which is no call of this batch`;
    throw invalid(`call \`${id}\` ${how}`);
  }
  return needs;
}

/** Gives the first cycle, with its first id repeated at the end. Iterative: a chain may be as long as the batch. */
function cycleIn(needs: ReadonlyMap<string, ReadonlySet<string>>): string[] | undefined {
  const done = new Set<string>();
  for (const root of needs.keys()) {
    const path: { id: string; rest: Iterator<string> }[] = [];
    const onPath = new Set<string>();
    const enter = (id: string) => {
      path.push({ id, rest: (needs.get(id) ?? new Set<string>()).values() });
      onPath.add(id);
    };
    if (!done.has(root)) enter(root);
    for (let top = path.at(-1); top; top = path.at(-1)) {
      const { value: next, done: over } = top.rest.next();
      if (over) {
        path.pop();
        onPath.delete(top.id);
        done.add(top.id);
      } else if (onPath.has(next)) {
        const at = path.findIndex(({ id }) => id === next);
        return [...path.slice(at).map(({ id }) => id), next];
      } else if (!done.has(next)) enter(next);
    }
  }
  return undefined;
}

/**
 * Orders a call after earlier calls only, in an order that all needs allow, so that no cycle can arise. Takes the
 * nearest `FOLLOWS_MAX` per tool: an order that is only preferred is not worth a million edges.
 */
function followsIn(
  calls: readonly BatchCall[],
  needs: ReadonlyMap<string, ReadonlySet<string>>,
  { followsOf, canonical }: PlanParts,
): Map<string, Set<string>> {
  const follows = new Map<string, Set<string>>();
  if (!calls.some(({ tool }) => followsOf(tool).length > 0)) return follows;
  const rank = new Map(
    levelsOf(calls, needs, follows)
      .flat()
      .map((id, at) => [id, at]),
  );
  const before = new Map<string, string[]>();
  for (const { id, tool } of calls) {
    const own = rank.get(id) as number;
    const wanted = followsOf(tool)
      .flatMap((it) => before.get(it)?.slice(-FOLLOWS_MAX) ?? [])
      .filter((it) => (rank.get(it) as number) < own);
    if (wanted.length > 0) follows.set(id, new Set(wanted));
    const name = canonical(tool);
    const same = before.get(name);
    if (same) same.push(id);
    else before.set(name, [id]);
  }
  return follows;
}

/** The most calls of one tool that another call is ordered after. */
const FOLLOWS_MAX = 32;

function levelsOf(
  calls: readonly BatchCall[],
  needs: ReadonlyMap<string, ReadonlySet<string>>,
  follows: ReadonlyMap<string, ReadonlySet<string>>,
): string[][] {
  const waits = new Map(calls.map(({ id }) => [id, new Set(waitsFor({ needs, follows }, id))]));
  const dependants = new Map<string, string[]>();
  for (const [id, neededIds] of waits) {
    for (const need of neededIds) {
      const those = dependants.get(need);
      if (those) those.push(id);
      else dependants.set(need, [id]);
    }
  }
  const levels: string[][] = [];
  let level = calls.map(({ id }) => id).filter((id) => waits.get(id)?.size === 0);
  while (level.length > 0) {
    levels.push(level);
    const next: string[] = [];
    for (const done of level) {
      for (const id of dependants.get(done) ?? []) {
        const left = waits.get(id) as Set<string>;
        left.delete(done);
        if (left.size === 0) next.push(id);
      }
    }
    level = next;
  }
  return levels;
}
