/** Time that a call spent waiting for a person at a door; it does not count as the call's. */
import type { ResultMetadata } from '../../base/call.ts';
import type { Powers } from '../../base/powers.ts';
import type { RunFacts } from '../outcome.ts';
import type { Call } from '../stage.ts';

export class PersonTime {
  readonly #powers: Pick<Powers, 'monotonicMs'>;
  #waiting = 0;
  #sinceMs = 0;
  #totalMs = 0;

  constructor(powers: Pick<Powers, 'monotonicMs'>) {
    this.#powers = powers;
  }

  get ms(): number {
    return Math.round(this.#totalMs + (this.#waiting > 0 ? this.#powers.monotonicMs() - this.#sinceMs : 0));
  }

  /** Counts until disposed. */
  begin(): Disposable {
    if (this.#waiting++ === 0) this.#sinceMs = this.#powers.monotonicMs();
    return {
      [Symbol.dispose]: () => {
        if (--this.#waiting === 0) this.#totalMs += this.#powers.monotonicMs() - this.#sinceMs;
      },
    };
  }
}

const times = new WeakMap<AbortController, PersonTime>();

/** The time of a call; undefined if it waited at no door. */
export const personTimeOf = ({ controller }: Pick<Call, 'controller'>): PersonTime | undefined => times.get(controller);

/** What a result says of it, and of what went out. */
export function waitedOf(
  call: Pick<Call, 'controller'>,
  { sent }: Pick<RunFacts, 'sent'>,
): Pick<ResultMetadata, 'sent' | 'waitedMs'> {
  return { sent, waitedMs: personTimeOf(call)?.ms || undefined };
}

/** The time of a call, from its first wait on. */
export function startPersonTime({ controller }: Pick<Call, 'controller'>, powers: Powers): PersonTime {
  const known = times.get(controller) ?? new PersonTime(powers);
  times.set(controller, known);
  return known;
}
