/** The workspaces that this node owns for sessions of the fleet: takes a lease for the first session, and gives it back after the last. */
import { confirmed, type HeldLease, RENEW_MS } from '../../base/fencing.ts';
import { bootMs, type Powers } from '../../base/powers.ts';
import { type LeaseStore, LeaseTaken } from '../leases.ts';

interface Owned {
  readonly workspace: string;
  lease: HeldLease;
  revision: number;
  readonly users: Set<LeaseUser>;
  isRenewing: boolean;
}

export interface LeaseUser {
  /** Called after each renewal that the store confirmed. */
  confirmed(lease: HeldLease): void;
  /** Called when another node owns the workspace, or nobody. */
  lost(): void;
}

export class OwnedWorkspaces implements Disposable {
  readonly #store: LeaseStore;
  readonly #node: string;
  readonly #powers: Powers;
  readonly #owned = new Map<string, Promise<Owned>>();
  readonly #timer: { cancel(): void };

  constructor(store: LeaseStore, node: string, powers: Powers) {
    this.#store = store;
    this.#node = node;
    this.#powers = powers;
    this.#timer = powers.every(RENEW_MS, () => void this.#renewAll());
  }

  /** Owns a workspace for a user; gives the lease, and how to end that. Throws LeaseTaken, and errors of the bus. */
  async own(workspace: string, user: LeaseUser): Promise<{ lease: HeldLease; release(): void }> {
    const taking = this.#owned.get(workspace) ?? this.#take(workspace);
    const owned = await taking;
    owned.users.add(user);
    return { lease: owned.lease, release: () => this.#release(owned, user) };
  }

  #take(workspace: string): Promise<Owned> {
    const take = async (): Promise<Owned> => {
      const askedAtMs = bootMs();
      const revision = await this.#store.take(workspace, this.#node);
      const lease = { epoch: revision, confirmedAtMs: askedAtMs };
      return { workspace, lease, revision, users: new Set(), isRenewing: false };
    };
    const taking = take();
    this.#owned.set(workspace, taking);
    taking.catch(() => this.#owned.delete(workspace));
    return taking;
  }

  #release(owned: Owned, user: LeaseUser): void {
    owned.users.delete(user);
    if (owned.users.size > 0 || !this.#owned.delete(owned.workspace)) return;
    void this.#store.release(owned.workspace, this.#node, owned.revision);
  }

  async #renewAll(): Promise<void> {
    for (const it of this.#owned.values()) void it.then((owned) => this.#renew(owned)).catch(() => {});
  }

  /** Counts from the moment at which the renewal is asked for, since the store counts from a later one. */
  async #renew(owned: Owned): Promise<void> {
    if (owned.isRenewing) return;
    owned.isRenewing = true;
    const askedAtMs = bootMs();
    try {
      owned.revision = await this.#store.renew(owned.workspace, this.#node, owned.revision);
      owned.lease = confirmed(owned.lease, askedAtMs);
      for (const it of owned.users) it.confirmed(owned.lease);
    } catch (error) {
      if (error instanceof LeaseTaken) this.#lose(owned);
      else this.#powers.log.warn({ reason: (error as Error).message }, 'a lease could not be renewed');
    } finally {
      owned.isRenewing = false;
    }
  }

  #lose(owned: Owned): void {
    this.#owned.delete(owned.workspace);
    this.#powers.log.warn({ workspace: owned.workspace }, 'this node does not own a workspace any more');
    for (const it of [...owned.users]) it.lost();
  }

  [Symbol.dispose](): void {
    this.#timer.cancel();
  }
}
