/** `ringfence upgrade`: this daemon starts a new one, hands over to it and ends; if that fails, this one goes on. */
import type { Server } from 'node:net';
import { RpcError } from '../base/errors.ts';
import type { Limits } from '../base/limits.ts';
import type { Powers } from '../base/powers.ts';
import type { SocketName } from '../wire/transport/inherited-sockets.ts';
import { type Launch, Successor } from './hand-over.ts';
import type { Notify } from './notify.ts';

export interface UpgradeOptions {
  readonly launch: Omit<Launch, 'servers'>;
  readonly limits: Limits;
  readonly powers: Powers;
  readonly notify: Notify | undefined;
  /** Why this daemon can't be replaced; undefined if it can. */
  readonly obstacle: string | undefined;
}

/** What this process does after the hand-over: end, serve again, or fail so that its service manager restarts it. */
export type Rest = 'nothing' | 'serve' | 'fail';

export class Upgrade {
  readonly #options: UpgradeOptions;
  #state: 'none' | 'starting' | 'cancelled' = 'none';
  #successor: Successor | undefined;

  constructor(options: UpgradeOptions) {
    this.#options = options;
  }

  /** Starts the new daemon, and calls `handOver` after the request for it was answered. Throws RpcError if it does not start. */
  async start(servers: ReadonlyMap<SocketName, Server>, handOver: () => void): Promise<Successor> {
    const { launch, powers, obstacle } = this.#options;
    if (obstacle !== undefined) throw new RpcError('INVALID_REQUEST', obstacle);
    if (this.#state !== 'none') throw new RpcError('OVERLOADED', 'the daemon is being upgraded or stopped already');
    this.#state = 'starting';
    let successor: Successor;
    try {
      successor = await Successor.start({ ...launch, servers }, this.#options);
    } catch (error) {
      if (!this.#isCancelled) this.#state = 'none';
      throw new RpcError('INTERNAL', `the new daemon did not start, and this one goes on: ${(error as Error).message}`);
    }
    this.#successor = successor;
    // `finish` ends the successor of a daemon that was stopped meanwhile.
    if (!this.#isCancelled) powers.after(0, handOver);
    return successor;
  }

  /** The daemon ends for a reason other than the upgrade. */
  cancel(): void {
    this.#state = 'cancelled';
  }

  /** Called when the daemon has ended and closed the state: lets the new one open it, unless this one was stopped. */
  async finish(): Promise<Rest> {
    const { powers, notify, launch } = this.#options;
    const successor = this.#successor;
    if (!successor) return 'nothing';
    if (this.#isCancelled) {
      await successor.stop();
      return 'nothing';
    }
    // Named before the new daemon reports READY: a service manager accepts that only from the main process.
    notify?.(`MAINPID=${successor.pid}`);
    try {
      await successor.giveTurn();
      powers.log.info({ pid: successor.pid, version: successor.version }, 'the new daemon serves');
      return 'nothing';
    } catch (error) {
      powers.log.error({ error }, 'the new daemon failed');
      // The sockets of a service manager can't be opened again here.
      return launch.kept.length > 0 ? 'fail' : 'serve';
    }
  }

  get #isCancelled(): boolean {
    return this.#state === 'cancelled';
  }
}
