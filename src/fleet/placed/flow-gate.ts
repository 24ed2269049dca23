/**
 * Bounds what all sessions of one connection have given to it and the server has not taken yet. A slow cable would otherwise
 * have so much of it before it that signs of life come too late.
 */
import type { FleetLink } from '../link.ts';

export class FlowGate {
  readonly #link: Pick<FleetLink, 'flushed'>;
  readonly #bytesMax: number;
  /** Sent and not known to be taken by the server. */
  #unflushed = 0;
  /** Sent since the server was last asked whether it has taken all. */
  #unasked = 0;
  /** Called in turn when the gate opens. */
  readonly #waiting = new Set<() => void>();

  constructor(link: Pick<FleetLink, 'flushed'>, bytesMax: number) {
    this.#link = link;
    this.#bytesMax = bytesMax;
  }

  get isOpen(): boolean {
    return this.#unflushed < this.#bytesMax;
  }

  /** Calls back once when there is room again. */
  whenOpen(callback: () => void): void {
    this.#waiting.add(callback);
  }

  /** Notes that so many bytes were sent. */
  sent(bytes: number): void {
    this.#unflushed += bytes;
    this.#unasked += bytes;
    if (this.#unasked < this.#bytesMax / 2) return;
    const asked = this.#unasked;
    this.#unasked = 0;
    void this.#link.flushed().then(() => this.#taken(asked));
  }

  #taken(bytes: number): void {
    this.#unflushed -= bytes;
    for (const it of [...this.#waiting]) {
      if (!this.isOpen) return;
      this.#waiting.delete(it);
      it();
    }
  }
}
