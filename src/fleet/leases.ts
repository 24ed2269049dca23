/**
 * Leases of workspaces in key-value stores of the bus: whoever owns a workspace of a node owns it for as long as it renews its lease. Each
 * node has a store of its own, since one that was taken over could fill it.
 */
import type { NatsConnection } from '@nats-io/transport-node';
import { LEASE_MS } from '../base/fencing.ts';

/** The store of a node's leases, which no other node may write to. Names of members have no `_`. */
export const leasesOf = (node: string): string => `owner_${node}`;
/** Bytes of one lease with its headers, and of all leases of a node: twice as many as it has sessions. */
const LEASE_BYTES_MAX = 512;
export const LEASES_BYTES_MAX = 131_072;
const ANSWER_MS = 1_000;
/** Code of the store's answer that somebody else has written the key. */
const WRONG_REVISION = 10_071;

/** Thrown where another node owns the workspace. */
export class LeaseTaken extends Error {}

type Store = Awaited<ReturnType<typeof openStore>>;

async function openStore(connection: NatsConnection, node: string, bindOnly: boolean) {
  const { Kvm } = await import('@nats-io/kv');
  // Leases are of no use beyond their time, so that one value of each is kept, and nothing but the newest.
  const bounds = { history: 1, maxValueSize: LEASE_BYTES_MAX, max_bytes: LEASES_BYTES_MAX };
  const options = { ttl: LEASE_MS, timeout: ANSWER_MS, ...bounds, bindOnly };
  const manager = new Kvm(connection);
  return bindOnly ? await manager.open(leasesOf(node), options) : await manager.create(leasesOf(node), options);
}

export class LeaseStore {
  readonly #connection: NatsConnection;
  readonly #stores = new Map<string, Promise<Store>>();

  constructor(connection: NatsConnection) {
    this.#connection = connection;
  }

  /** Makes the store of a node, if it is not there. The hub does, since it may. */
  async make(node: string): Promise<void> {
    await openStore(this.#connection, node, false);
  }

  /** Takes the lease of a workspace; gives its revision. Throws LeaseTaken if somebody has it, and errors of the bus. */
  async take(workspace: string, node: string): Promise<number> {
    return await this.#write(node, (store) => store.create(workspace, node));
  }

  /** Renews a lease; gives its next revision. Throws LeaseTaken if it is another's or nobody's by now, and errors of the bus. */
  async renew(workspace: string, node: string, revision: number): Promise<number> {
    return await this.#write(node, (store) => store.update(workspace, node, revision, ANSWER_MS));
  }

  /** Gives a lease back, if it is still the one of this revision; errors say only that its time will end it. */
  async release(workspace: string, node: string, revision: number): Promise<void> {
    await this.#write(node, (store) => store.delete(workspace, { previousSeq: revision })).catch(() => {});
  }

  async #write<T>(node: string, write: (store: Store) => Promise<T>): Promise<T> {
    const opened = this.#stores.get(node) ?? openStore(this.#connection, node, true);
    this.#stores.set(node, opened);
    try {
      return await write(await opened);
    } catch (error) {
      if (isWrongRevision(error)) throw new LeaseTaken('another node owns the workspace');
      this.#stores.delete(node); // The bus may have been made anew.
      throw error;
    }
  }
}

function isWrongRevision(error: unknown): boolean {
  const { code, message } = error as { code?: unknown; message?: string };
  return code === WRONG_REVISION || /wrong last sequence/i.test(message ?? '');
}
