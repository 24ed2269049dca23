/** What policies say of how much single tools may take. Pure. */
import type { PolicyFile, ToolBounds } from './schema.ts';

type AllBounds = Readonly<Record<string, ToolBounds>>;

/** A child says less than its parent; more is nothing that it could widen, since the tier's bound holds in any case. */
export function composeToolBounds(parent: AllBounds = {}, said: PolicyFile['tools'] = {}): AllBounds | undefined {
  const { disable: _, ...tools } = said;
  const all = new Map(Object.entries(parent));
  for (const [name, own] of Object.entries(tools)) {
    const before = all.get(name) ?? {};
    const least = (key: keyof ToolBounds) => {
      const values = [before[key], own[key]].filter((it) => it !== undefined);
      return values.length === 0 ? {} : { [key]: Math.min(...values) };
    };
    const bounds: ToolBounds = { ...least('timeoutMs'), ...least('outputBytes') };
    if (Object.keys(bounds).length > 0) all.set(name, bounds);
  }
  return all.size === 0 ? undefined : Object.fromEntries(all);
}
