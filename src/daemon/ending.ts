/** The end of a daemon: it hands over to a new one, or is shut down. */
import type { Powers } from '../base/powers.ts';
import type { Gateway } from '../gateway/gateway.ts';
import type { Listeners } from './listeners.ts';

export interface EndingParts {
  readonly gateway: Pick<Gateway, 'handOver' | 'close'>;
  readonly listeners: Pick<Listeners, 'goOver' | 'stayers'>;
  /** Everything that the daemon has started. */
  readonly daemonParts: AsyncDisposable;
  readonly powers: Pick<Powers, 'log'>;
}

export class Ending {
  readonly #parts: EndingParts;
  readonly #hurry = new AbortController();
  readonly #closing = Promise.withResolvers<void>();
  readonly #ended = Promise.withResolvers<void>();
  /** Resolves when the daemon begins to end without a new one. */
  readonly closing: Promise<void> = this.#closing.promise;
  readonly ended: Promise<void> = this.#ended.promise;
  #begun = false;

  constructor(parts: EndingParts) {
    this.#parts = parts;
  }

  handOver = (drainMs: number): void => {
    const { gateway, listeners, powers } = this.#parts;
    if (this.#begun) return;
    powers.log.info({ drainMs }, 'handing over to the new daemon');
    const { signal: hurry } = this.#hurry;
    this.#endAfter(
      gateway.handOver(drainMs, { goOver: () => listeners.goOver(), stayers: () => listeners.stayers, hurry }),
    );
  };

  /** Called while the daemon hands over, it only makes that end sooner. */
  close = (graceMs: number, reason: string): Promise<void> => {
    const { gateway, powers } = this.#parts;
    powers.log.info({ graceMs }, `shutting down: ${reason}`);
    this.#closing.resolve();
    this.#hurry.abort();
    if (!this.#begun) this.#endAfter(gateway.close(graceMs, reason));
    return this.ended;
  };

  #endAfter(calls: Promise<void>): void {
    this.#begun = true;
    calls.then(() => this.#parts.daemonParts[Symbol.asyncDispose]()).then(this.#ended.resolve, this.#ended.reject);
  }
}
