/** What PostgreSQL's EXPLAIN (FORMAT JSON) tells of a statement. */
import { parseJson } from '../../../src/base/text/json.ts';
import { isRecord } from '../../../src/base/text/values.ts';
import { Refused } from '../../sqlite/refusals.ts';

/** A node of the plan; its members are those of EXPLAIN. */
export type Plan = Readonly<Record<string, unknown>>;

const MODIFY = 'ModifyTable';

/** Throws Refused for what is no plan. */
export function toPlan(text: unknown): Plan {
  try {
    const [only] = parseJson(String(text)) as unknown[];
    if (isRecord(only) && isRecord(only.Plan)) return only.Plan;
  } catch {
    // SyntaxError, or no array.
  }
  throw new Refused('UPSTREAM_FAILED', 'the database gave no plan for the statement');
}

export const costOf = (plan: Plan): number => Number(plan['Total Cost']);

/** The node that changes rows, which may stand below one that selects; undefined for a statement that only reads. */
export function changeIn(plan: Plan): Plan | undefined {
  const nodes: Plan[] = [plan];
  for (let node = nodes.pop(); node; node = nodes.pop()) {
    if (node['Node Type'] === MODIFY) return node;
    nodes.push(...childrenOf(node));
  }
  return undefined;
}

/** Rows that a change is estimated to touch: those that the node below it gives. */
export function estimatedRows(change: Plan): number {
  return childrenOf(change).reduce((sum, it) => sum + Number(it['Plan Rows'] ?? 0), 0);
}

function childrenOf({ Plans: plans }: Plan): Plan[] {
  return Array.isArray(plans) ? plans.filter(isRecord) : [];
}
