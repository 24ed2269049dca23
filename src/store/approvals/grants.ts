/** Remembered answers. Architecture invariant: they apply only to calls that the policy asks about, never to calls that it denies. */
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { RpcError } from '../../errors.ts';
import { parseJson } from '../../text/json.ts';
import { type Grant, type GrantFacts, IMPACTS, REACHES } from './approval.ts';

const SCHEMA = `CREATE TABLE IF NOT EXISTS grants (
  grant_id TEXT PRIMARY KEY, expires_ms INTEGER NOT NULL, body TEXT NOT NULL) STRICT`;

export class Grants {
  /** Grants, oldest first; those of sessions are only in memory. */
  readonly #grants = new Map<string, Grant>();
  readonly #insert: StatementSync;
  readonly #delete: StatementSync;
  readonly #grantsMax: number;

  constructor(database: DatabaseSync, nowMs: number, grantsMax: number) {
    database.exec(SCHEMA);
    database.prepare('DELETE FROM grants WHERE expires_ms <= ?').run(nowMs);
    for (const row of database.prepare('SELECT body FROM grants ORDER BY rowid').all()) {
      const grant = parseJson(row.body as string) as Grant;
      this.#grants.set(grant.grantId, grant);
    }
    this.#insert = database.prepare('INSERT INTO grants (grant_id, expires_ms, body) VALUES (?, ?, ?)');
    this.#delete = database.prepare('DELETE FROM grants WHERE grant_id = ?');
    this.#grantsMax = grantsMax;
  }

  /**
   * Adds a grant and replaces earlier ones for the same calls, so that the later answer counts. Throws INVALID_PARAMS if there are too
   * many.
   */
  add(grant: Grant): void {
    const goes = (it: Grant) => it.expiresAtMs <= grant.grantedAtMs || isForTheSame(it, grant);
    if ([...this.#grants.values()].filter((it) => !goes(it)).length >= this.#grantsMax) {
      throw new RpcError(
        'INVALID_PARAMS',
        `${this.#grantsMax} answers are already remembered, which is the maximum; revoke one, or answer without remembering`,
      );
    }
    this.#forget(goes);
    if (grant.scope === 'always') this.#insert.run(grant.grantId, grant.expiresAtMs, JSON.stringify(grant));
    this.#grants.set(grant.grantId, grant);
  }

  /** The grant that applies to such a call; a denial wins over an approval. */
  covering(facts: GrantFacts, nowMs: number): Grant | undefined {
    let found: Grant | undefined;
    for (const grant of this.#grants.values()) {
      if (grant.expiresAtMs <= nowMs || !covers(grant, facts)) continue;
      if (grant.decision === 'deny') return grant;
      found = grant;
    }
    return found;
  }

  list(nowMs: number): Grant[] {
    return [...this.#grants.values()].filter((it) => it.expiresAtMs > nowMs);
  }

  revoke(grantId: string): Grant | undefined {
    const grant = this.#grants.get(grantId);
    if (grant) this.#forget((it) => it === grant);
    return grant;
  }

  endSession(sessionId: string): void {
    this.#forget((it) => it.scope === 'session' && it.sessionName === undefined && it.sessionId === sessionId);
  }

  #forget(which: (grant: Grant) => boolean): void {
    for (const grant of this.#grants.values()) {
      if (!which(grant)) continue;
      if (grant.scope === 'always') this.#delete.run(grant.grantId);
      this.#grants.delete(grant.grantId);
    }
  }
}

/**
 * Whether `grant` applies to a call with such facts. An approval covers no more than the person saw: no higher impact, no new unknown
 * parts, no other policy, no further asking rules, no code in a command line.
 */
export function covers(grant: Grant, facts: GrantFacts): boolean {
  if (grant.principal !== facts.principal || grant.workspace !== facts.workspace) return false;
  if (grant.scope === 'session' && memoryOf(grant) !== memoryOf(facts)) return false;
  if (!matches(grant, facts)) return false;
  if (grant.decision === 'deny') return true;
  // A person who said yes to an agent did not see what the agents that it starts do.
  if (grant.delegated !== facts.delegated) return false;
  if (facts.hasInlineCode) return false;
  const within = IMPACTS.indexOf(facts.level) <= IMPACTS.indexOf(grant.level) && (grant.unknown || !facts.unknown);
  const sameRules = facts.askingRules.every((it) => grant.askingRules.includes(it));
  return (
    within &&
    sameRules &&
    (grant.match === 'exact' || reaches(grant, facts)) &&
    grant.policyVersion === facts.policyVersion
  );
}

/** Identifies the session for remembering: by its name if it has one, in a form that no id has. */
const memoryOf = ({ sessionId, sessionName }: GrantFacts): string =>
  sessionName === undefined ? sessionId : `name ${sessionName}`;

/** Whether a grant for commands covers a call: only the same programs, with no greater reach. An unknown reach counts as the greatest. */
function reaches(grant: Grant, facts: GrantFacts): boolean {
  if (facts.reach === undefined && facts.programs === undefined) return true;
  const known = new Set(grant.programs);
  const furthest = (it: GrantFacts) => (it.reach === undefined ? REACHES.length : REACHES.indexOf(it.reach));
  return (
    grant.reach !== undefined &&
    furthest(facts) <= furthest(grant) &&
    (facts.programs ?? []).every((it) => known.has(it))
  );
}

function matches(grant: Grant, facts: GrantFacts): boolean {
  switch (grant.match) {
    case 'exact':
      return grant.subjectHash === facts.subjectHash;
    case 'tool':
      return grant.tool === facts.tool;
    case 'rule':
      return facts.askingRules.includes(grant.rule);
    default:
      return grant.match satisfies never;
  }
}

function isForTheSame(a: Grant, b: Grant): boolean {
  const keyOf = (grant: Grant) => {
    const { scope, principal, workspace, delegated = false, match, tool, subjectHash, rule } = grant;
    const session = scope === 'session' ? memoryOf(grant) : '';
    return JSON.stringify([
      scope,
      session,
      principal,
      workspace,
      delegated,
      match,
      { exact: subjectHash, tool, rule }[match],
    ]);
  };
  return keyOf(a) === keyOf(b);
}
