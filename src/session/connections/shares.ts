/** Limits open connections of one transport: a total, a share for each principal, and extra places for operators. */
import { RpcError } from '../../errors.ts';
import type { Limits } from '../../limits.ts';
import type { Identity } from '../authenticate.ts';

type ShareLimits = Pick<Limits, 'principalConnectionShare' | 'operatorConnectionsMax'>;

export class ConnectionShares {
  readonly #max: number;
  readonly #limits: ShareLimits;
  readonly #byPrincipal = new Map<string, number>();
  #agents = 0;
  #operators = 0;

  /** `max` limits all connections except the extra ones of operators. */
  constructor(max: number, limits: ShareLimits) {
    this.#max = max;
    this.#limits = limits;
  }

  /** Takes a place until it is disposed. Throws OVERLOADED with a message for the person at the client. */
  take({ role, principal }: Pick<Identity, 'role' | 'principal'>): Disposable {
    return role === 'operator' ? this.#takeOperators(principal) : this.#takeOf(principal);
  }

  #takeOf(principal: string): Disposable {
    const own = this.#byPrincipal.get(principal) ?? 0;
    const share = Math.max(1, Math.floor(this.#max * this.#limits.principalConnectionShare));
    if (own >= share)
      throw new RpcError(
        'OVERLOADED',
        `${own} connections of ${principal} are open, its share of ${this.#max}; close one`,
      );
    if (this.#agents >= this.#max)
      throw new RpcError('OVERLOADED', `${this.#agents} connections are open, as many as may; try again later`);
    this.#byPrincipal.set(principal, own + 1);
    this.#agents += 1;
    return once(() => {
      const left = (this.#byPrincipal.get(principal) ?? 1) - 1;
      if (left > 0) this.#byPrincipal.set(principal, left);
      else this.#byPrincipal.delete(principal);
      this.#agents -= 1;
    });
  }

  /** Takes an ordinary place if there is one, otherwise one reserved for operators. */
  #takeOperators(principal: string): Disposable {
    try {
      return this.#takeOf(principal);
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

function once(leave: () => void): Disposable {
  let isLeft = false;
  return {
    [Symbol.dispose]() {
      if (!isLeft) leave();
      isLeft = true;
    },
  };
}
