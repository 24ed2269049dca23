/**
 * Limits open connections of one transport: a total, a share for each principal and for each of its processes, and extra
 * places for operators.
 */
import { RpcError } from '../../base/errors.ts';
import type { Limits } from '../../base/limits.ts';
import type { Identity } from '../authenticate.ts';

/** A process may hold this many times the places that it leaves free to the others of its principal. */
const TIMES_FREE = 2;

/** The identity that takes a place; `pid` names the connecting process, if the kernel tells. */
type Holder = Pick<Identity, 'role' | 'principal'> & { readonly pid?: number | undefined };

type ShareLimits = Pick<Limits, 'principalConnectionShare' | 'operatorConnectionsMax'>;

export class ConnectionShares {
  readonly #max: number;
  readonly #limits: ShareLimits;
  readonly #byPrincipal = new Map<string, number>();
  readonly #byProcess = new Map<string, number>();
  #agents = 0;
  #operators = 0;

  /** `max` limits all connections except the extra ones of operators. */
  constructor(max: number, limits: ShareLimits) {
    this.#max = max;
    this.#limits = limits;
  }

  /** Takes a place until it is disposed. Throws OVERLOADED with a message for the person at the client. */
  take(holder: Holder): Disposable {
    return holder.role === 'operator' ? this.#takeOperators(holder) : this.#takeOf(holder);
  }

  #takeOf({ principal, pid }: Holder): Disposable {
    const own = this.#byPrincipal.get(principal) ?? 0;
    const share = Math.max(1, Math.floor(this.#max * this.#limits.principalConnectionShare));
    if (own >= share)
      throw new RpcError(
        'OVERLOADED',
        `${own} connections of ${principal} are open, its share of ${this.#max}; close one`,
      );
    const process = pid === undefined ? undefined : `${principal}\0${pid}`;
    const ofProcess = (process !== undefined && this.#byProcess.get(process)) || 0;
    if (ofProcess > 0 && ofProcess >= TIMES_FREE * (share - own))
      throw new RpcError(
        'OVERLOADED',
        `${ofProcess} connections of process ${pid} are open; the ${share - own} that are left to ${principal} are for its other processes; close one`,
      );
    if (this.#agents >= this.#max)
      throw new RpcError('OVERLOADED', `${this.#agents} connections are open, as many as may; try again later`);
    const count = (by: 1 | -1) => {
      change(this.#byPrincipal, principal, by);
      if (process !== undefined) change(this.#byProcess, process, by);
      this.#agents += by;
    };
    count(1);
    return once(() => count(-1));
  }

  /** Takes an ordinary place if there is one, otherwise one reserved for operators. */
  #takeOperators(holder: Holder): Disposable {
    try {
      return this.#takeOf(holder);
    } catch (error) {
      const { operatorConnectionsMax } = this.#limits;
      if (this.#operators >= operatorConnectionsMax) throw error;
      this.#operators += 1;
      return once(() => {
        this.#operators -= 1;
      });
    }
  }
}

function change(counts: Map<string, number>, key: string, by: 1 | -1): void {
  const left = (counts.get(key) ?? 0) + by;
  if (left > 0) counts.set(key, left);
  else counts.delete(key);
}

function once(leave: () => void): Disposable {
  let isLeft = false;
  return {
    [Symbol.dispose]() {
      if (!isLeft) leave();
      isLeft = true;
    },
  };
}
