/**
 * Tokens with less authority than the session that asked for them, for a program that hands one to another agent. A
 * token lives in this daemon's memory only: it ends with its session, at its time, or when it is revoked, and so do the
 * sessions that were opened with it.
 */
import { hash } from 'node:crypto';
import { PASSED_ON } from '../../base/call.ts';
import { RpcError, ToolError } from '../../base/errors.ts';
import type { Limits } from '../../base/limits.ts';
import type { Powers, Timer } from '../../base/powers.ts';
import { Budget } from '../../pipeline/budget.ts';
import { isAmong } from '../../policy/modes.ts';
import type { Params } from '../../wire/protocol/messages.ts';
import type { Identity } from '../authenticate.ts';
import type { ClientLink } from '../client-link.ts';
import type { Policies } from '../policies.ts';
import type { Session } from '../session.ts';
import type { SessionRecords } from '../session-records.ts';
import type { Sessions } from '../sessions.ts';
import { chainOf, type Delegation } from './delegation.ts';

export interface AttenuationsParts {
  /** Throw RpcError INVALID_PARAMS for a name that there is not. */
  readonly policies: Pick<Policies, 'assertBuiltIn' | 'modes'>;
  readonly limits: Limits;
  readonly powers: Powers;
}

interface Attenuation {
  readonly id: string;
  readonly tokenHash: string;
  readonly delegation: Delegation<Session>;
  readonly identity: Identity;
  readonly timer: Timer;
}

export class Attenuations {
  readonly #parts: AttenuationsParts;
  readonly #byId = new Map<string, Attenuation>();
  readonly #byToken = new Map<string, Attenuation>();
  #records: SessionRecords | undefined;
  #sessions: Sessions | undefined;

  constructor(parts: AttenuationsParts) {
    this.#parts = parts;
  }

  /** Called once, before the first token: where tokens are recorded, and the sessions that end with them. */
  connect(records: SessionRecords, sessions: Sessions): void {
    this.#records = records;
    this.#sessions = sessions;
  }

  readonly methods = {
    'sessions.attenuate': ({ session }: ClientLink, params: Params<'sessions.attenuate'>) =>
      this.#issue(session, params),
    'sessions.revoke': ({ session }: ClientLink, { id }: Params<'sessions.revoke'>) => this.#revoke(session, id),
  };

  /** Throws RpcError INVALID_PARAMS, FORBIDDEN, OVERLOADED. */
  #issue(session: Session, asked: Params<'sessions.attenuate'>): { token: string; id: string; expiresAt: string } {
    const { limits, powers, policies } = this.#parts;
    this.#assertRoom(session);
    const { options } = session;
    const { tools, policy, mode, budget = {}, expiresIn } = asked;
    assertOwn(tools, session);
    if (policy !== undefined) policies.assertBuiltIn(policy);
    if (mode !== undefined) policies.modes.find(mode);
    const id = powers.uuid();
    const delegation: Delegation<Session> = {
      parent: session,
      chain: [...chainOf(session), { callId: id, tool: PASSED_ON }],
      budget: budgetOf(budget, session),
      tools,
      policies: policy === undefined ? [] : [policy],
      modes: mode === undefined ? [] : [mode],
      endsWithParent: true,
      sharesDoors: false,
    };
    const token = powers.secret();
    const expiresInMs = Math.min(expiresIn, budget.ms ?? Infinity, limits.attenuationMs);
    const attenuation: Attenuation = {
      id,
      tokenHash: hash('sha256', token, 'hex'),
      delegation,
      identity: { role: 'agent', principal: options.principal, delegation },
      timer: powers.after(expiresInMs, () => this.#end(attenuation, 'its time is over')),
    };
    this.#byId.set(id, attenuation);
    this.#byToken.set(attenuation.tokenHash, attenuation);
    const expiresAt = new Date(powers.now() + expiresInMs).toISOString();
    const { chain } = delegation;
    this.#records?.note(session, 'attenuated', { id, expiresAt, tools, policy, mode, budget, chain });
    return { token, id, expiresAt };
  }

  /** The identity that a token proves; undefined for any other text. Looked up by hash, so that its time tells nothing. */
  readonly identify = (token: string): Identity | undefined =>
    this.#byToken.get(hash('sha256', token, 'hex'))?.identity;

  /** For the session that asked for the token, those above it, and operators. Throws RpcError FORBIDDEN for others. */
  #revoke(session: Session, id: string): { revoked: boolean } {
    const found = this.#byId.get(id);
    if (!found) return { revoked: false };
    if (session.options.role !== 'operator' && !isAbove(session, found.delegation))
      throw new RpcError('FORBIDDEN', `the token ${id.slice(0, 64)} was not made by this session`);
    this.#end(found, `${session.options.role === 'operator' ? 'an operator' : 'its session'} revoked it`);
    return { revoked: true };
  }

  /** Ends the tokens of a session that is over. */
  sessionEnded(session: Session): void {
    for (const it of [...this.#byId.values()])
      if (it.delegation.parent === session) this.#end(it, 'the session that made it ended');
  }

  #end(attenuation: Attenuation, reason: string): void {
    const { id, tokenHash, delegation, timer } = attenuation;
    if (!this.#byId.delete(id)) return;
    this.#byToken.delete(tokenHash);
    timer.cancel();
    this.#records?.note(delegation.parent, 'attenuation-ended', { id, reason });
    // Ends the tokens of those sessions as well.
    this.#sessions?.endWhere((it) => it.options.delegation === delegation, reason);
    delegation.budget.close();
  }

  #assertRoom(session: Session): void {
    const { attenuationsPerSessionMax, attenuationsMax, delegationDepthMax } = this.#parts.limits;
    const depth = chainOf(session).length;
    if (depth >= delegationDepthMax)
      throw new RpcError('FORBIDDEN', `authority was passed on ${depth} times, which is the maximum`);
    const own = [...this.#byId.values()].filter((it) => it.delegation.parent === session).length;
    if (own >= attenuationsPerSessionMax || this.#byId.size >= attenuationsMax)
      throw new RpcError(
        'OVERLOADED',
        `${own} tokens of this session and ${this.#byId.size} in all are in force; at most ${attenuationsPerSessionMax} and ${attenuationsMax} may`,
      );
  }
}

/** Whether the session made the token, or one from which the session that made it came. */
function isAbove(session: Session, delegation: Delegation<Session>): boolean {
  for (let it: Delegation<Session> | undefined = delegation; it; it = it.parent.options.delegation)
    if (it.parent === session) return true;
  return false;
}

/** Throws INVALID_PARAMS for a pattern that names no tool of the session. */
function assertOwn(tools: readonly string[] | undefined, { options: { toolset } }: Session): void {
  const names = [...toolset.values()].map(({ tool }) => tool.name);
  const unknown = tools?.filter((pattern) => !names.some((it) => isAmong([pattern], it))) ?? [];
  if (unknown.length > 0)
    throw new RpcError('INVALID_PARAMS', `this session has no tool ${unknown.slice(0, 8).join(', ')} to pass on`);
}

function budgetOf({ ms: _, ...terms }: NonNullable<Params<'sessions.attenuate'>['budget']>, session: Session): Budget {
  try {
    return new Budget(terms, session.options.delegation?.budget);
  } catch (error) {
    if (error instanceof ToolError) throw new RpcError('INVALID_PARAMS', error.message, error.extras.details);
    throw error;
  }
}
