/** Decides recorded calls again by two policies: what would have been otherwise, had the new one been in force. */

import type { Policy } from '../policy/schema.ts';
import type { AuditRecord } from '../store/audit/log.ts';
import type { Toolset } from '../tools/tool.ts';
import type { Answer } from '../wire/protocol/answers.ts';
import { decideWithEnvironment, type PermissionParts, toQuestion } from './permission.ts';

export type Comparison = Omit<Answer<'policy.backtest'>, 'cut'>;

export interface BacktestOptions {
  readonly old: Policy;
  readonly new: Policy;
  readonly toolset: Toolset;
  readonly parts: PermissionParts;
}

/** Stands for the workspace of a session without a recorded start. No path lies in it, so the system's programs are recognised. */
const NO_WORKSPACE = '/workspace-of-an-older-session';

export class Backtest {
  readonly comparison: Comparison = { differences: [], calls: 0, skipped: 0 };
  readonly #options: BacktestOptions;
  readonly #workspaces = new Map<string, { workspace: string; root: string }>();
  /** Principals and workspaces with a call whose result strangers wrote. */
  readonly #tainted = new Set<string>();

  constructor(options: BacktestOptions) {
    this.#options = options;
  }

  /** Takes the next entry of the log, oldest first: the starts of sessions and the calls, of which it decides those with an input. */
  add({ kind, sessionId, principal, tool: name, input, detail, at }: AuditRecord): void {
    if (kind === 'session' && typeof detail?.workspace === 'string')
      this.#workspaces.set(sessionId, {
        workspace: detail.workspace,
        root: typeof detail.root === 'string' ? detail.root : detail.workspace,
      });
    if (input === undefined || name === undefined) return;
    const { toolset, parts, ...policies } = this.#options;
    const tool = toolset.get(name)?.tool;
    const parsed = tool?.input.safeParse(input);
    if (!tool || !parsed?.success || isRedacted(input)) {
      this.comparison.skipped += 1;
      return;
    }
    this.comparison.calls += 1;
    const place = this.#workspaces.get(sessionId) ?? { workspace: NO_WORKSPACE, root: NO_WORKSPACE };
    const mark = `${principal}\0${place.root}`;
    const asker = { principal, session: sessionId, sawUntrusted: this.#tainted.has(mark), ...place };
    if (tool.untrusted) this.#tainted.add(mark);
    const question = toQuestion(tool, parsed.data, { asker, parts });
    const env = tool.commandOf?.(parsed.data as never)?.env;
    const [before, after] = [policies.old, policies.new].map((it) => decideWithEnvironment(it, question, env)) as [
      ReturnType<typeof decideWithEnvironment>,
      ReturnType<typeof decideWithEnvironment>,
    ];
    if (before.decision === after.decision) return;
    this.comparison.differences.push({
      at,
      tool: name,
      effects: after.effects.map((it) => `${it.kind} ${it.target}`).join(', '),
      old: before.decision,
      new: after.decision,
      rule: after.by.id,
      source: after.by.source,
    });
  }
}

/** Whether an input contains a redaction marker: with it, paths and commands differ from those that were decided. */
const isRedacted = (input: unknown): boolean => JSON.stringify(input).includes('[redacted');
