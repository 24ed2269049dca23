/** Who may go: one at a time, in the order of arrival; who is aborted while waiting goes away at once. */
export class Turns {
  #last: Promise<void> = Promise.resolve();

  async take<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    signal.throwIfAborted();
    const before = this.#last;
    const own = Promise.withResolvers<void>();
    this.#last = own.promise;
    const aborted = Promise.withResolvers<never>();
    const abort = () => aborted.reject(signal.reason);
    signal.addEventListener('abort', abort, { once: true });
    try {
      await Promise.race([before, aborted.promise]);
      return await work();
    } finally {
      signal.removeEventListener('abort', abort);
      // Whoever comes next waits for those before this one too, if it went away.
      void before.then(own.resolve);
    }
  }
}
