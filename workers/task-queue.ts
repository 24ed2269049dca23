import { unlessAborted } from '../src/hosts/shutdown.ts';

/** Runs tasks one at a time, in the order of arrival; an aborted task leaves the queue at once. */
export class TaskQueue {
  #last: Promise<void> = Promise.resolve();

  async take<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    signal.throwIfAborted();
    const before = this.#last;
    const own = Promise.withResolvers<void>();
    this.#last = own.promise;
    try {
      await unlessAborted(before, signal);
      return await work();
    } finally {
      // Later tasks still wait for those before this one, even if this one has left.
      void before.then(own.resolve);
    }
  }
}
