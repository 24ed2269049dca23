/** Bounds the unacknowledged output of a job, so that a slow gateway fills no process. */
export class OutputWindow {
  readonly #bytesMax: number;
  #bytes = 0;
  #room: PromiseWithResolvers<void> | undefined;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** Counts sent bytes. A returned promise asks to send nothing until it settles. */
  sent(bytes: number): Promise<void> | undefined {
    this.#bytes += bytes;
    if (this.#bytes < this.#bytesMax) return undefined;
    this.#room ??= Promise.withResolvers();
    return this.#room.promise;
  }

  /** Counts bytes that the gateway acknowledged. */
  taken(bytes: number): void {
    this.#bytes -= bytes;
    if (this.#bytes >= this.#bytesMax) return;
    this.#room?.resolve();
    this.#room = undefined;
  }
}
