/**
 * The door of a signature: a commit with the person's signature says that they made it, so they are asked. An answer can be remembered for
 * the session or the project, for one key.
 */
import type { ToolError } from '../../base/errors.ts';
import type { ApprovalDraft, GrantFacts } from '../../store/approvals/approval.ts';
import { asksOf } from '../execute/bounds.ts';
import type { ClearedCall } from '../stage.ts';
import { askAtDoor, draftAtDoor, factsAtDoor } from './door-facts.ts';
import type { HostDoorParts, HostDoors } from './host-doors.ts';
import { startPersonTime } from './person-time.ts';

type SigningDoorParts = Pick<HostDoorParts, 'approvals' | 'limits' | 'powers' | 'approvers' | 'redact'> & {
  readonly doors: Pick<HostDoors, 'holdMsOf'>;
};

const RULE = 'git_commit';
/** Sessions that are remembered, for what none of them holds a key: with more, they are asked and told again. */
const SESSIONS_MAX = 1000;

export class SigningDoor {
  readonly #parts: SigningDoorParts;
  /** Sessions that left a question open, and those that were told of commands. */
  readonly #unanswered = new Set<string>();
  readonly #told = new Set<string>();

  constructor(parts: SigningDoorParts) {
    this.#parts = parts;
  }

  /** Why the commit of a call is not signed with the key; undefined if it may be. */
  async ask(call: ClearedCall, { name }: { readonly name: string }): Promise<string | undefined> {
    const { approvals, approvers, powers } = this.#parts;
    const { sessionId, atDoors } = call;
    const door = { kind: 'signature', target: name } as const;
    const of = { tool: call.checked.tool.name, rule: RULE, policyVersion: call.policy.version };
    const facts = factsAtDoor(atDoors, door, of);
    const grant = approvals.remembered(facts, call.id);
    if (grant) return grant.decision === 'approve' ? undefined : REMEMBERED_NO;
    if (asksOf(call.policyNow(), 'execute').includes(false)) return 'the policy has nobody asked';
    if (approvers(sessionId) === 0) return 'nobody is there to ask';
    if (this.#unanswered.has(atDoors.sessionId)) return `${LATE}, so this session asks no more`;
    const draft = this.#draftOf(call, facts);
    using _ = startPersonTime(call, powers).begin();
    try {
      const answer = await askAtDoor(call, draft, { approvals, signal: call.controller.signal });
      call.announce({ status: 'in-progress', startedAt: new Date(powers.now()).toISOString() });
      return answer.decision === 'approve' ? undefined : 'a person said no';
    } catch (error) {
      if ((error as ToolError).code !== 'APPROVAL_TIMEOUT') throw error;
      remember(this.#unanswered, call);
      call.announce({ status: 'in-progress', startedAt: new Date(powers.now()).toISOString() });
      return LATE;
    }
  }

  /** Whether the session knows that commits of commands are not signed. */
  hasTold(call: ClearedCall): boolean {
    return this.#told.has(call.atDoors.sessionId);
  }

  /** The warning that says so, once. */
  tell(call: ClearedCall): string[] {
    if (this.hasTold(call)) return [];
    remember(this.#told, call);
    return [OF_COMMANDS];
  }

  #draftOf(call: ClearedCall, facts: GrantFacts): ApprovalDraft {
    const { limits, powers, redact, doors } = this.#parts;
    const target = facts.door?.target ?? '';
    return {
      ...draftAtDoor(call, facts, { powers, redact, charsMax: limits.approvalShownChars }),
      effects: [],
      impact: {
        level: facts.level,
        description: `Signs the commit with your key ${target}.`,
        warnings: ['A signature says that you made the commit', 'Without it, the commit stays unsigned'],
      },
      door: facts.door,
      remember: { door: `signatures of commits with ${target}` },
      reason: 'Your git signs commits (commit.gpgSign).',
      rule: RULE,
      timeoutMs: doors.holdMsOf(call.sessionId),
    };
  }
}

function remember(sessions: Set<string>, { atDoors }: ClearedCall): void {
  if (sessions.size >= SESSIONS_MAX) sessions.clear();
  sessions.add(atDoors.sessionId);
}

const OF_COMMANDS =
  'the person signs commits, and no command has their key: commits by commands are not signed, those by git_commit are';
const REMEMBERED_NO = 'a person said no for this session (`ringfence approvals grants`)';
const LATE = 'nobody answered in time';
