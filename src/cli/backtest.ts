import type { Client } from '../client.ts';
import { defaultLimits } from '../limits.ts';
import { decideWithEnvironment, toQuestion } from '../pipeline/permission.ts';
import { loadPolicy } from '../policy/load.ts';
import type { Policy } from '../policy/schema.ts';
import { createProgramResolver } from '../policy/shell/programs.ts';
import type { AuditRecord } from '../store/audit/log.ts';
import { builtinToolset, effectsOfBuiltin } from '../tools/registry.ts';
import { EXIT, harmless, print, printJson, say } from './output.ts';

export interface BacktestFlags {
  /** An age such as `30d`, or ISO 8601. */
  readonly since?: string;
  readonly json?: boolean;
}

/** A recorded call that the two policies decide differently. */
interface CallDifference {
  at: string;
  tool: string;
  effects: string;
  old: string;
  new: string;
  rule: string;
  source: string;
}

/** Result of comparing two policies on recorded calls. */
export interface Comparison {
  differences: CallDifference[];
  calls: number;
  /** Calls that can't be judged again: the log has their input cut or redacted, or their tool is not built in. */
  skipped: number;
}

const PAGE = 1000;
/** Stands for the workspace of a session without a recorded start. No path lies in it, so the system's programs are recognised. */
const NO_WORKSPACE = '/workspace-of-an-older-session';

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
  // Sessions may have begun long before the selected calls.
  const sessions = await entriesOf(client, { kind: 'session' });
  const entries = await entriesOf(client, { since: flags.since ?? '30d' });
  const comparison = compare([...sessions, ...entries], { old, new: fresh }, home);
  if (flags.json) printJson(comparison);
  else printDifferences(comparison);
  return comparison.differences.length === 0 ? EXIT.OK : EXIT.FAILED;
}

async function entriesOf(client: Pick<Client, 'request'>, filter: object): Promise<AuditRecord[]> {
  const entries: AuditRecord[] = [];
  let cursor: string | undefined;
  do {
    const page = (await client.request('audit.query', {
      ...filter,
      order: 'oldest',
      limit: PAGE,
      ...(cursor !== undefined && { cursor }),
    })) as { entries: AuditRecord[]; cursor?: string };
    for (const it of page.entries) entries.push(it);
    cursor = page.cursor;
  } while (cursor !== undefined);
  return entries;
}

/** Whether an input contains a redaction marker: with it, paths and commands differ from those that were decided. */
const isRedacted = (input: unknown): boolean => JSON.stringify(input).includes('[redacted');

/** Decides each recorded call with both policies. Pure except for resolving programs. */
export function compare(
  entries: readonly AuditRecord[],
  policies: { old: Policy; new: Policy },
  home: string,
): Comparison {
  const toolset = builtinToolset();
  const parts = { home, limits: defaultLimits, resolve: createProgramResolver() };
  const workspaces = new Map<string, { workspace: string; root: string }>();
  /** Sessions that have made a call whose result strangers wrote. */
  const tainted = new Set<string>();
  const comparison: Comparison = { differences: [], calls: 0, skipped: 0 };
  for (const entry of entries) {
    const { kind, sessionId, principal, tool: name, input, detail } = entry;
    if (kind === 'session' && typeof detail?.workspace === 'string')
      workspaces.set(sessionId, {
        workspace: detail.workspace,
        root: typeof detail.root === 'string' ? detail.root : detail.workspace,
      });
    if (input === undefined || name === undefined) continue;
    const tool = toolset.get(name)?.tool;
    const parsed = tool?.input.safeParse(input);
    if (!tool || !parsed?.success || isRedacted(input)) {
      comparison.skipped += 1;
      continue;
    }
    comparison.calls += 1;
    const place = workspaces.get(sessionId) ?? { workspace: NO_WORKSPACE, root: NO_WORKSPACE };
    const asker = { principal, session: sessionId, sawUntrusted: tainted.has(sessionId), ...place };
    if (tool.untrusted) tainted.add(sessionId);
    const question = toQuestion(tool, parsed.data, { asker, parts });
    const env = tool.commandOf?.(parsed.data as never)?.env;
    const [before, after] = [
      decideWithEnvironment(policies.old, question, env),
      decideWithEnvironment(policies.new, question, env),
    ];
    if (before.decision === after.decision) continue;
    const effects = after.effects.map((it) => `${it.kind} ${it.target}`).join(', ');
    comparison.differences.push({
      at: entry.at,
      tool: name,
      effects,
      old: before.decision,
      new: after.decision,
      rule: after.by.id,
      source: after.by.source,
    });
  }
  return comparison;
}

function printDifferences({ differences, calls, skipped }: Comparison): void {
  for (const it of differences)
    print(harmless(`${it.at}  ${it.old} -> ${it.new}  ${it.tool}  ${it.effects}  (${it.rule}, ${it.source})`));
  const left = skipped === 0 ? '' : `; ${skipped} calls could not be decided again`;
  say(`${differences.length} of ${calls} calls would be decided differently${left}`);
}
