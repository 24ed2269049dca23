/** Health reports of tools in a few lines for people. */

/** A health report in the answer to `status`. */
export interface NamedHealth {
  readonly name: string;
  readonly ok: boolean;
  readonly message?: string;
}

/** Lines such as `git_diff, git_log: why`; tools with the same reason share a line. */
export function badHealth(all: readonly NamedHealth[]): string[] {
  const byReason = Map.groupBy(
    all.filter((it) => !it.ok),
    (it) => it.message ?? 'no reason given',
  );
  return [...byReason].map(([why, tools]) => `${tools.map((it) => it.name).join(', ')}: ${why}`);
}

export function describeHealth(all: readonly NamedHealth[]): string[] {
  const working = all.filter((it) => it.ok).length;
  const bad = badHealth(all).map((it) => `does not work now: ${it}`);
  return [`${working} of the ${all.length} tools that can check themselves work`, ...bad];
}
