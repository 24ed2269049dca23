import { defaultLimits } from '../base/limits.ts';
import type { Client } from '../client/client.ts';
import { Backtest, type Comparison } from '../pipeline/backtest.ts';
import { loadPolicy } from '../policy/load.ts';
import type { Policy } from '../policy/schema.ts';
import { createProgramResolver } from '../policy/shell/programs.ts';
import type { AuditRecord } from '../store/audit/log.ts';
import { builtinToolset, effectsOfBuiltin } from '../tools/registry.ts';
import { allEntries } from './audit/audit.ts';
import { EXIT, harmless, print, printJson, say } from './output.ts';

export interface BacktestFlags {
  /** An age such as `30d`, or ISO 8601. */
  readonly since?: string;
  readonly json?: boolean;
}

/**
 * `ringfence policy backtest OLD NEW`: lists recorded calls that would be decided differently. Returns 0 if there are none, 1 otherwise.
 */
export async function policyBacktest(
  files: { old: string; new: string },
  flags: BacktestFlags,
  { client, home }: { client: Pick<Client, 'request'>; home: string },
): Promise<number> {
  const [old, fresh] = [files.old, files.new].map((it) => loadPolicy(it, { effectsOf: effectsOfBuiltin })) as [
    Policy,
    Policy,
  ];
  const entries: AuditRecord[] = [];
  // Sessions may have begun long before the selected calls.
  for (const filter of [{ kind: 'session' }, { since: flags.since ?? '30d' }] as const)
    for await (const it of allEntries({ ...filter, order: 'oldest' }, client)) entries.push(it);
  const comparison = compare(entries, { old, new: fresh }, home);
  if (flags.json) printJson(comparison);
  else printDifferences(comparison);
  return comparison.differences.length === 0 ? EXIT.OK : EXIT.FAILED;
}

/** Decides each recorded call with both policies. Pure except for resolving programs. */
export function compare(
  entries: readonly AuditRecord[],
  policies: { old: Policy; new: Policy },
  home: string,
): Comparison {
  const parts = { home, limits: defaultLimits, resolve: createProgramResolver() };
  const backtest = new Backtest({ ...policies, toolset: builtinToolset(), parts });
  for (const it of entries) backtest.add(it);
  return backtest.comparison;
}

function printDifferences({ differences, calls, skipped }: Comparison): void {
  for (const it of differences)
    print(harmless(`${it.at}  ${it.old} -> ${it.new}  ${it.tool}  ${it.effects}  (${it.rule}, ${it.source})`));
  const left = skipped === 0 ? '' : `; ${skipped} calls could not be decided again`;
  say(`${differences.length} of ${calls} calls would be decided differently${left}`);
}
