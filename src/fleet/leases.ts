/** Leases of workspaces in the key-value store of the bus: one node owns a workspace, for as long as it renews its lease. */
import type { NatsConnection } from '@nats-io/transport-node';
import { LEASE_MS } from '../fencing.ts';

const BUCKET = 'owner';
const ANSWER_MS = 1_000;
/** Code of the store's answer that somebody else has written the key. */
const WRONG_REVISION = 10_071;

/** Thrown where another node owns the workspace. */
export class LeaseTaken extends Error {}

type Store = Awaited<ReturnType<typeof openStore>>;

async function openStore(connection: NatsConnection, bindOnly: boolean) {
  const { Kvm } = await import('@nats-io/kv');
  // Leases are of no use beyond their time, so that one value of each is kept, and nothing but the newest.
  const options = { ttl: LEASE_MS, history: 1, timeout: ANSWER_MS, bindOnly };
  const manager = new Kvm(connection);
  return bindOnly ? await manager.open(BUCKET, options) : await manager.create(BUCKET, options);
}

export class LeaseStore {
  readonly #connection: NatsConnection;
  #store: Promise<Store> | undefined;

  constructor(connection: NatsConnection) {
    this.#connection = connection;
  }

  /** Makes the store, if it is not there. The hub does, since it may. */
  async make(): Promise<void> {
    await openStore(this.#connection, false);
  }

  /** Takes the lease of a workspace; gives its revision. Throws LeaseTaken if somebody has it, and errors of the bus. */
  async take(workspace: string, node: string): Promise<number> {
    return await this.#write((store) => store.create(workspace, node));
  }

  /** Renews a lease; gives its next revision. Throws LeaseTaken if it is another's or nobody's by now, and errors of the bus. */
  async renew(workspace: string, node: string, revision: number): Promise<number> {
    return await this.#write((store) => store.update(workspace, node, revision, ANSWER_MS));
  }

  /** Gives a lease back, if it is still the one of this revision; errors say only that its time will end it. */
  async release(workspace: string, revision: number): Promise<void> {
    await this.#write((store) => store.delete(workspace, { previousSeq: revision })).catch(() => {});
  }

  async #write<T>(write: (store: Store) => Promise<T>): Promise<T> {
    this.#store ??= openStore(this.#connection, true);
    try {
      return await write(await this.#store);
    } catch (error) {
      if (isWrongRevision(error)) throw new LeaseTaken('another node owns the workspace');
      this.#store = undefined; // The bus may have been made anew.
      throw error;
    }
  }
}

function isWrongRevision(error: unknown): boolean {
  const { code, message } = error as { code?: unknown; message?: string };
  return code === WRONG_REVISION || /wrong last sequence/i.test(message ?? '');
}
