/** How much of one job's output may be on its way, so that a gateway that does not take it fills no process. */
export class OutputWindow {
  readonly #bytesMax: number;
  #bytes = 0;
  #room: PromiseWithResolvers<void> | undefined;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** Counts what was sent. Gives a promise where nothing more should be sent before it settles. */
  sent(bytes: number): Promise<void> | undefined {
    this.#bytes += bytes;
    if (this.#bytes < this.#bytesMax) return undefined;
    this.#room ??= Promise.withResolvers();
    return this.#room.promise;
  }

  /** The gateway has dealt with so much. */
  taken(bytes: number): void {
    this.#bytes -= bytes;
    if (this.#bytes >= this.#bytesMax) return;
    this.#room?.resolve();
    this.#room = undefined;
  }
}
