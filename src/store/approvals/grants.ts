/**
 * Remembered answers. Architecture invariant: a yes applies only to calls that the policy asks about, never to calls that it denies. A no
 * to a tool holds for its calls that the policy allows, too.
 */
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { RpcError } from '../../base/errors.ts';
import { companionsOf, registrableDomain } from '../../base/text/host-names.ts';
import { parseJson } from '../../base/text/json.ts';
import { type DoorTarget, type Grant, type GrantFacts, type Openings, opensForSession } from './approval.ts';
import { IMPACTS, REACHES } from './shapes.ts';

const SCHEMA = `CREATE TABLE IF NOT EXISTS grants (
  grant_id TEXT PRIMARY KEY, expires_ms INTEGER NOT NULL, body TEXT NOT NULL) STRICT`;

/** A tool, and who calls it: the session itself, and the one on whose behalf it works. */
export interface ToolCaller extends Pick<GrantFacts, 'tool' | 'principal' | 'workspace'> {
  readonly sessions: readonly string[];
  /** The programs of a command. */
  programs(): GrantFacts['programs'];
}

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
   * Adds a grant beside the others: a yes for `git` stays when one for `nl` comes. What the new one covers wholly goes, and so does the
   * opposite answer to the same question. Throws INVALID_PARAMS if there are too many.
   */
  add(grant: Grant): void {
    const goes = (it: Grant) =>
      it.expiresAtMs <= grant.grantedAtMs || (isForTheSame(it, grant) && isReplaced(it, grant));
    if ([...this.#grants.values()].filter((it) => !goes(it)).length >= this.#grantsMax) {
      throw new RpcError(
        'INVALID_PARAMS',
        `${this.#grantsMax} answers are already remembered, which is the maximum; revoke one, or answer without remembering`,
      );
    }
    this.#forget(goes);
    if (grant.scope !== 'session') this.#insert.run(grant.grantId, grant.expiresAtMs, JSON.stringify(grant));
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

  /** Whether a no to the tool holds for all calls of these sessions; a no to a command holds for those of the same programs. */
  refuses({ tool, principal, workspace, sessions, programs }: ToolCaller, nowMs: number): boolean {
    for (const it of this.#grants.values())
      if (
        it.decision === 'deny' &&
        it.match === 'tool' &&
        it.tool === tool &&
        it.expiresAtMs > nowMs &&
        it.principal === principal &&
        it.workspace === workspace &&
        (it.programs === undefined || it.programs.some((name) => programs()?.includes(name))) &&
        (it.scope !== 'session' || sessions.includes(memoryOf(it)))
      )
        return true;
    return false;
  }

  /** What answers at doors let a session see; `factsAt` gives the facts of the session at a door. */
  opened(factsAt: (door: DoorTarget) => GrantFacts, nowMs: number): Openings {
    const doors = [...this.#grants.values()].flatMap(({ door }) => (door && opensForSession({ door }) ? [door] : []));
    const isOpen = (door: DoorTarget) => this.covering(factsAt(door), nowMs)?.decision === 'approve';
    const targets = (kind: DoorTarget['kind']) => doors.filter((it) => it.kind === kind && isOpen(it));
    const sorted = (of: readonly DoorTarget[]) => [...new Set(of.map(({ target }) => target))].sort();
    return {
      secrets: sorted(targets('secret')),
      folders: sorted(targets('path')),
      services: sorted(targets('service')),
    };
  }

  list(nowMs: number): Grant[] {
    return [...this.#grants.values()].filter((it) => it.expiresAtMs > nowMs);
  }

  revoke(grantId: string): Grant | undefined {
    const grant = this.#grants.get(grantId);
    if (grant) this.#forget((it) => it === grant);
    return grant;
  }

  /** Forgets all grants and returns them. */
  revokeAll(): Grant[] {
    const all = [...this.#grants.values()];
    this.#forget(() => true);
    return all;
  }

  endSession(sessionId: string): void {
    this.#forget((it) => it.scope === 'session' && it.sessionName === undefined && it.sessionId === sessionId);
  }

  #forget(which: (grant: Grant) => boolean): void {
    for (const grant of this.#grants.values()) {
      if (!which(grant)) continue;
      if (grant.scope !== 'session') this.#delete.run(grant.grantId);
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
  const isAbove = grant.decision === 'deny' && memoryOf(grant) === facts.accountId;
  if (grant.scope === 'session' && memoryOf(grant) !== memoryOf(facts) && !isAbove) return false;
  if (grant.door || facts.door) return coversDoor(grant, facts);
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

/**
 * A yes covers the host and its companions at that port; a no covers the domain. An answer about a path, a key or a service covers that one. None depends
 * on the words of the policy: the door is there only while each layer in force has a person asked.
 */
function coversDoor(grant: Grant, facts: GrantFacts): boolean {
  const { door } = facts;
  if (!grant.door || !door || grant.door.kind !== door.kind) return false;
  if (grant.scope === 'project' && (grant.project !== facts.project || grant.projectIs !== facts.projectIs))
    return false;
  if (door.kind !== 'host' && door.kind !== 'upload')
    return grant.door.target === door.target && (grant.decision === 'deny' || grant.delegated === facts.delegated);
  const [given, asked] = [partsOf(grant.door), partsOf(door)];
  if (grant.decision === 'deny')
    return given.host === '*' || registrableDomain(given.host) === registrableDomain(asked.host);
  const isSame = given.port === asked.port && companionsOf(given.host).includes(asked.host);
  return isSame && grant.delegated === facts.delegated;
}

function partsOf({ target }: DoorTarget): { host: string; port: string } {
  const at = target.lastIndexOf(':');
  return { host: target.slice(0, at).replace(/^\[(.*)\]$/, '$1'), port: target.slice(at + 1) };
}

/** Identifies the session for remembering: by its name if it has one, in a form that no id has. */
export const memoryOf = ({ sessionId, sessionName }: Pick<GrantFacts, 'sessionId' | 'sessionName'>): string =>
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
    case 'door':
      return false; // `coversDoor` judges those.
    default:
      return grant.match satisfies never;
  }
}

/** Whether `later` leaves nothing of an earlier answer to the same question; a yes under another policy is void already. */
const isReplaced = (earlier: Grant, later: Grant): boolean =>
  earlier.decision !== later.decision || earlier.policyVersion !== later.policyVersion || covers(later, earlier);

/** Whether two grants are of one holder and for the same call, tool or rule, whatever programs they cover. */
function isForTheSame(a: Grant, b: Grant): boolean {
  const keyOf = (grant: Grant) => {
    const { scope, principal, workspace, delegated = false, match, tool, subjectHash, rule, door } = grant;
    const session = scope === 'session' ? memoryOf(grant) : '';
    return JSON.stringify([
      scope,
      session,
      principal,
      workspace,
      delegated,
      match,
      { exact: subjectHash, tool, rule, door: door && [door.kind, door.target] }[match],
    ]);
  };
  return keyOf(a) === keyOf(b);
}
