/** Reads the resource usage of processes once for all callers within 100 ms: many callers at once would hold up the daemon. */
import pidusage from 'pidusage';
import type { Powers } from '../../base/powers.ts';

type Usage = Readonly<Record<number, { readonly memory: number; readonly ctime: number }>>;

const REUSED_FOR_MS = 100;

export class UsageLooks {
  readonly #powers: Powers;
  #last: { readonly atMs: number; readonly pids: string; readonly usage: Promise<Usage> } | undefined;

  constructor(powers: Powers) {
    this.#powers = powers;
  }

  /** Gives memory in bytes and CPU time in ms by pid; leaves out processes that have ended. */
  of(pids: readonly number[]): Promise<Usage> {
    const atMs = this.#powers.monotonicMs();
    const names = pids.join();
    if (this.#last?.pids === names && atMs - this.#last.atMs < REUSED_FOR_MS) return this.#last.usage;
    const usage: Promise<Usage> = pids.length === 0 ? Promise.resolve({}) : pidusage([...pids]).catch(() => ({}));
    this.#last = { atMs, pids: names, usage };
    return usage;
  }
}
