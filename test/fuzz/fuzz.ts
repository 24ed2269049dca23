/** Runs targets in a thread and notes what breaks: an exception, a broken law, an input that hangs or ends the thread. */
import { Worker } from 'node:worker_threads';
import { InputSlot } from './input-slot.ts';
import { FUZZ_TARGETS } from './targets.ts';

export interface FuzzFinding {
  readonly target: string;
  readonly input: Uint8Array;
  readonly failure: string;
}

export interface FuzzCount {
  readonly target: string;
  readonly cases: number;
  /** The outcomes that were seen, each with its first input. */
  readonly outcomes: ReadonlyMap<string, Uint8Array>;
}

export type FuzzEvent = { readonly finding: FuzzFinding } | { readonly counts: readonly FuzzCount[] };

export interface FuzzJob {
  /** The module with FUZZ_TARGETS. */
  readonly module: string;
  readonly targets: readonly string[];
  readonly seed: number;
  readonly cases: number;
  readonly endsAtMs: number;
  readonly slot: SharedArrayBuffer;
}

export interface FuzzOptions extends Partial<Omit<FuzzJob, 'slot'>> {
  /** An input that is tried this long hangs; by default far above what a busy machine needs. */
  readonly hangMs?: number;
  readonly onFinding?: (finding: FuzzFinding) => void;
}

const WATCH_MS = 500;

/** Tries inputs until the number of cases or the end is reached. A hang or crash ends the run early. */
export async function fuzz({
  module = new URL('./targets.ts', import.meta.url).href,
  targets = Object.keys(FUZZ_TARGETS),
  seed = 1,
  cases = Number.POSITIVE_INFINITY,
  endsAtMs = Number.POSITIVE_INFINITY,
  hangMs = 30_000,
  onFinding,
}: FuzzOptions): Promise<{ counts: readonly FuzzCount[]; findings: readonly FuzzFinding[] }> {
  const memory = new SharedArrayBuffer(InputSlot.BYTES);
  const slot = new InputSlot(memory);
  const findings: FuzzFinding[] = [];
  let counts: readonly FuzzCount[] = [];
  const find = (finding: FuzzFinding) => {
    findings.push(finding);
    onFinding?.(finding);
  };
  const workerData = { module, targets, seed, cases, endsAtMs, slot: memory } satisfies FuzzJob;
  const thread = new Worker(new URL('./fuzz-thread.ts', import.meta.url), { workerData });
  thread.on('message', (event: FuzzEvent) => {
    if ('counts' in event) counts = event.counts;
    else find(event.finding);
  });
  thread.on('error', (error) => find({ ...slot.take(), failure: `ended the thread: ${(error as Error).stack}` }));
  let [seenCount, seenAt] = [-1, Date.now()];
  const watch = setInterval(() => {
    if (slot.count !== seenCount) [seenCount, seenAt] = [slot.count, Date.now()];
    else if (Date.now() - seenAt > hangMs && seenCount > 0) {
      find({ ...slot.take(), failure: `hangs: not done after ${hangMs} ms` });
      void thread.terminate();
    }
  }, WATCH_MS);
  await new Promise((resolve) => thread.once('exit', resolve));
  clearInterval(watch);
  // Node ends a thread that waits for what nothing will bring.
  if (counts.length === 0 && findings.length === 0)
    find({ ...slot.take(), failure: 'never ends, and nothing is under way' });
  return { counts, findings };
}
