/**
 * Sessions that a fleet has placed here. Each has a fence: its calls start only while the fleet's link confirms that this
 * node owns the workspace, and that somebody waits for the calls. The link opens such a session by a token that works once.
 */

import { hash } from 'node:crypto';
import { RpcError } from '../../base/errors.ts';
import type { Limits } from '../../base/limits.ts';
import type { Powers } from '../../base/powers.ts';
import type { Params } from '../../wire/protocol/messages.ts';
import type { Identity } from '../authenticate.ts';
import type { ClientLink } from '../client-link.ts';
import type { Session } from '../session.ts';
import { Fence } from './fence.ts';
import { notPlaced, type PlacedWorkspace, type PlacedWorkspaces, workspaceMethods } from './placed-workspaces.ts';

/** The principal of all sessions of a fleet. */
const PRINCIPAL = 'fleet';

export class Fences {
  readonly #limits: Limits;
  readonly #powers: Pick<Powers, 'secret' | 'uuid'>;
  readonly #workspaces: PlacedWorkspaces | undefined;
  readonly #byId = new Map<string, Fence>();
  /** Fences of open sessions, by the ids of these; sessions that one passes its authority to share its entry. */
  readonly #bySession = new Map<string, { now: Fence }>();
  /** Fences by the hash of a token that was not used yet. */
  readonly #byToken = new Map<string, Fence>();

  /** `workspaces`: makes workspaces for sessions; without it they work in folders of the machine. */
  constructor(limits: Limits, powers: Pick<Powers, 'secret' | 'uuid'>, workspaces?: PlacedWorkspaces) {
    this.#limits = limits;
    this.#powers = powers;
    this.#workspaces = workspaces;
  }

  readonly methods = {
    'fleet.admit': ({ session }: ClientLink, params: Params<'fleet.admit'>) => this.#admit(session.options.id, params),
    'fleet.ready': async (_: ClientLink, { id }: Params<'fleet.ready'>) => {
      const fence = this.#byId.get(id);
      await fence?.ready;
      if (!fence?.workspace) throw new RpcError('INVALID_PARAMS', `no workspace is made for ${id}`);
      return { workspace: fence.workspace.folder };
    },
    'fleet.confirm': (_: ClientLink, params: Params<'fleet.confirm'>) => {
      const fence = this.#byId.get(params.id);
      if (!fence) throw new RpcError('INVALID_PARAMS', `there is no fence ${params.id}`);
      fence.confirm(params);
      return {};
    },
    'fleet.close': (_: ClientLink, { id }: Params<'fleet.close'>) => {
      this.#end((it) => it.id === id);
      return {};
    },
    ...workspaceMethods(({ session: { options } }) => {
      // A session with a token that was passed on may work there, and no more.
      const found = options.delegation ? undefined : this.#bySession.get(options.id)?.now.workspace;
      if (!found) throw notPlaced();
      return found;
    }),
  };

  /** Hashes of the repositories that this node has a mirror of. */
  get warm(): readonly string[] {
    return this.#workspaces?.warm ?? [];
  }

  /** What the client of a session is told of the workspace that was made for it. */
  toldOf({ delegation, id }: Pick<Session['options'], 'delegation' | 'id'>): PlacedWorkspace['told'] | undefined {
    return delegation ? undefined : this.#bySession.get(id)?.now.workspace?.told;
  }

  /** Throws RpcError OVERLOADED. */
  #admit(ownerId: string, { workspace, node = '' }: Params<'fleet.admit'>): { token: string; id: string } {
    const { fleetSessionsMax } = this.#limits;
    if (this.#byId.size >= fleetSessionsMax)
      throw new RpcError('OVERLOADED', `${this.#byId.size} sessions of the fleet are open, which is the maximum`);
    const fence = new Fence(this.#powers.uuid(), ownerId);
    if (workspace !== undefined) {
      if (!this.#workspaces)
        throw new RpcError('FORBIDDEN', 'this node makes no workspaces: its config.yaml has no `fleet`');
      fence.make(this.#workspaces.open(workspace, node));
    }
    const token = this.#powers.secret();
    this.#byId.set(fence.id, fence);
    this.#byToken.set(hash('sha256', token, 'hex'), fence);
    return { token, id: fence.id };
  }

  /** The identity of a session of the fleet, by its token; a token works once. */
  readonly identify = (token: string): Identity | undefined => {
    const key = hash('sha256', token, 'hex');
    const fence = this.#byToken.get(key);
    if (!fence) return undefined;
    this.#byToken.delete(key);
    return { role: 'agent', principal: PRINCIPAL, fence };
  };

  /**
   * Puts a session behind the fence of its token, or behind that of the session which passed its authority on. A session that
   * is resumed gets the fence of its new token. What is returned gives the fence of a call that comes now, which stays its.
   */
  join(id: string, { fence, delegation }: Identity): () => Fence | undefined {
    const known = this.#bySession.get(id);
    if (known && fence) known.now = fence;
    const entry = fence ? { now: fence } : delegation && this.#bySession.get(delegation.parent.options.id);
    if (!known && entry) this.#bySession.set(id, entry);
    return () => this.#bySession.get(id)?.now;
  }

  /** Closes the fences of a link that is gone. */
  sessionEnded({ options: { id } }: Session): void {
    this.#bySession.delete(id);
    this.#end((it) => it.ownerId === id);
  }

  #end(which: (fence: Fence) => boolean): void {
    for (const it of [...this.#byId.values()].filter(which)) {
      it.close();
      this.#byId.delete(it.id);
    }
    for (const [key, it] of this.#byToken) if (which(it)) this.#byToken.delete(key);
  }
}
