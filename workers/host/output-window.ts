/** Bounds the unacknowledged output of a job, so that a slow gateway fills no process. */
export class OutputWindow {
  readonly #bytesMax: number;
  #bytes = 0;
  #pendingRoom: PromiseWithResolvers<void> | undefined;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** Counts sent bytes. A returned promise asks to send nothing until it settles. */
  addSent(bytes: number): Promise<void> | undefined {
    this.#bytes += bytes;
    if (this.#bytes < this.#bytesMax) return undefined;
    this.#pendingRoom ??= Promise.withResolvers();
    return this.#pendingRoom.promise;
  }

  /** Counts bytes that the gateway acknowledged. */
  acknowledge(bytes: number): void {
    this.#bytes -= bytes;
    if (this.#bytes >= this.#bytesMax) return;
    this.#pendingRoom?.resolve();
    this.#pendingRoom = undefined;
  }
}
