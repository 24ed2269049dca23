/**
 * Remembered answers. Architecture invariant: they stand only for calls that the policy asks about; a call that it
 * denies never comes here.
 */
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { RpcError } from '../errors.ts';
import { parseJson } from '../parse-json.ts';
import { type Facts, type Grant, IMPACTS, REACHES } from './approval.ts';

const SCHEMA = `CREATE TABLE IF NOT EXISTS grants (
  grant_id TEXT PRIMARY KEY, expires_ms INTEGER NOT NULL, body TEXT NOT NULL) STRICT`;

export class Grants {
  /** Oldest first; those of sessions live here only. */
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

  /** Takes the place of those for the same calls, so that a later answer counts. Throws INVALID_PARAMS when there are too many. */
  add(grant: Grant): void {
    const goes = (it: Grant) => it.expiresAtMs <= grant.grantedAtMs || isForTheSame(it, grant);
    if ([...this.#grants.values()].filter((it) => !goes(it)).length >= this.#grantsMax) {
      throw new RpcError(
        'INVALID_PARAMS',
        `${this.#grantsMax} answers are remembered already; revoke one, or answer this once`,
      );
    }
    this.#forget(goes);
    if (grant.scope === 'always') this.#insert.run(grant.grantId, grant.expiresAtMs, JSON.stringify(grant));
    this.#grants.set(grant.grantId, grant);
  }

  /** The answer that stands for such a call; of two the denial. */
  covering(facts: Facts, nowMs: number): Grant | undefined {
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
 * Whether `grant` stands for a call of such facts. An approval reaches no further than what the person saw: no higher
 * impact, no unknown parts where there were none, no other policy, no rule beside those that asked then, no code in a command line.
 */
export function covers(grant: Grant, facts: Facts): boolean {
  if (grant.principal !== facts.principal || grant.workspace !== facts.workspace) return false;
  if (grant.scope === 'session' && memoryOf(grant) !== memoryOf(facts)) return false;
  if (!matches(grant, facts)) return false;
  if (grant.decision === 'deny') return true;
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

/** Which session it is, as far as remembering goes: by its name where it has one, which no id looks like. */
const memoryOf = ({ sessionId, sessionName }: Facts): string =>
  sessionName === undefined ? sessionId : `name ${sessionName}`;

/** A yes to commands is one to those programs, and to no more than they did; kinds that are not told are the furthest. */
function reaches(grant: Grant, facts: Facts): boolean {
  if (facts.reach === undefined && facts.programs === undefined) return true;
  const known = new Set(grant.programs);
  const furthest = (it: Facts) => (it.reach === undefined ? REACHES.length : REACHES.indexOf(it.reach));
  return (
    grant.reach !== undefined &&
    furthest(facts) <= furthest(grant) &&
    (facts.programs ?? []).every((it) => known.has(it))
  );
}

function matches(grant: Grant, facts: Facts): boolean {
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
    const { scope, principal, workspace, match, tool, subjectHash, rule } = grant;
    const session = scope === 'session' ? memoryOf(grant) : '';
    return JSON.stringify([scope, session, principal, workspace, match, { exact: subjectHash, tool, rule }[match]]);
  };
  return keyOf(a) === keyOf(b);
}
